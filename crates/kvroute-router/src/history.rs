//! What a pool remembers of everything that was ever computed: F1.
//!
//! A request is looked up before it teaches anything, so that it never finds itself, and teaches only what was computed
//! to its end. What is remembered is not what is cached: it tells whether a cache that was large enough and never emptied
//! would have had it.

mod file;
mod lesson;
mod sharing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kvroute_cluster::{Cluster, Sharing};
use kvroute_core::{BlockSize, HashedPrompts, ModelName, SequenceHash, Tokens};
use kvroute_history::{AgeMark, Ages, Domain, History};
use kvroute_metrics::{HistoryLevels, HistoryMetrics};
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use self::file::HistoryFile;
pub(crate) use self::lesson::Lesson;
pub(crate) use self::sharing::SharingTeller;

/// How long a worker that joins waits for what was kept over a restart. A history decides nothing, so it must not keep
/// anybody from serving.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the smallest block must have been another one: engines restart, and with the only one that has blocks of this
/// size everything would be forgotten.
const SIZE_SETTLES_AFTER: Duration = Duration::from_secs(600);

/// Over how long the present rate of new blocks is taken.
const RATE_WINDOW: Duration = Duration::from_secs(300);

/// The history of one pool.
#[derive(Debug)]
pub(crate) struct PoolHistory {
    model: ModelName,
    set: Arc<History>,
    cluster: Option<Arc<Cluster>>,
    /// `None` until the pool's block size is known.
    era: ArcSwapOption<Era>,
    beginning: Mutex<()>,
    joining: tokio::sync::Mutex<()>,
    /// Since when the smallest block of the fleet is another one.
    differs_since: Mutex<Option<Instant>>,
    ages: Mutex<Ages>,
    metrics: Arc<HistoryMetrics>,
    started: Instant,
}

/// The time in which the pool's smallest block has one size.
#[derive(Debug)]
struct Era {
    size: BlockSize,
    /// `None` where nothing is shared.
    sharing: Option<Sharing>,
    /// Somebody takes back what was kept over a restart, or has done so.
    is_restored: AtomicBool,
}

/// What of a request was ever computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The block size that it was looked up by.
    pub(crate) size: BlockSize,
    /// F1.
    pub(crate) total: Tokens,
    /// The same of each prompt.
    pub(crate) of_prompts: Vec<Tokens>,
}

/// How full a history is and how far it reaches back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reach {
    pub(crate) levels: HistoryLevels,
    /// How far back it will reach once it is full, if new blocks come as fast as in the last minutes.
    pub(crate) at_present_rate: Option<Duration>,
}

// === impl PoolHistory ===

impl PoolHistory {
    /// An empty history. Whatever it learns is told to the replicas of `cluster`.
    pub(crate) fn new(
        model: ModelName,
        set: History,
        cluster: Option<Arc<Cluster>>,
        metrics: Arc<HistoryMetrics>,
    ) -> Self {
        let history = Self {
            model,
            set: Arc::new(set),
            cluster,
            era: ArcSwapOption::empty(),
            beginning: Mutex::default(),
            joining: tokio::sync::Mutex::default(),
            differs_since: Mutex::default(),
            ages: Mutex::default(),
            metrics,
            started: Instant::now(),
        };
        history.show();
        history
    }

    /// What of these prompts was ever computed; `None` where they were not hashed by [its block size](Self::size).
    pub(crate) fn look_up(&self, hashed: &HashedPrompts) -> Option<Known> {
        let size = self.size()?;
        let prompts = hashed.of_size(size);
        if prompts.is_empty() {
            return None;
        }
        let known = |hashes: &[SequenceHash]| size.tokens(self.set.known_prefix(hashes));
        let of_prompts: Vec<_> = prompts.iter().map(|prompt| known(prompt.hashes())).collect();
        Some(Known { size, total: of_prompts.iter().copied().sum(), of_prompts })
    }

    /// Remembers a prefix: blocks of a prompt, and those of its answer behind them. Replicas are told the whole of it if
    /// any of it was new, so that what they missed of it earlier does not stay a hole.
    pub(crate) fn teach(&self, size: BlockSize, prompt: &[SequenceHash], output: &[SequenceHash]) {
        let era = self.era.load();
        let Some(era) = era.as_ref().filter(|era| era.size == size) else { return };
        let added = self.set.teach(prompt).get() + self.set.teach(output).get();
        if let (Some(sharing), true) = (&era.sharing, added > 0) {
            match output {
                [] => sharing.taught(prompt),
                _ => sharing.taught(&[prompt, output].concat()),
            }
        }
    }

    /// Tokens that nobody knows the ids of.
    pub(crate) fn untracked(&self, tokens: Tokens) {
        self.metrics.untracked(tokens);
    }

    /// A worker with blocks of this size is about to join: what `file` kept is there, or on its way if that takes long.
    pub(crate) async fn get_ready(
        self: &Arc<Self>,
        size: BlockSize,
        file: Option<&Arc<HistoryFile>>,
        stop: &CancellationToken,
    ) {
        let _one_at_a_time = self.joining.lock().await;
        if self.size().is_none_or(|smallest| size < smallest) {
            self.begin(size);
        }
        let (Some(file), Some(era)) = (file, self.era.load_full()) else { return };
        if era.is_restored.swap(true, Ordering::Relaxed) {
            return;
        }
        let (history, file, stop) = (Arc::clone(self), Arc::clone(file), stop.clone());
        let restoring = spawn_blocking(move || history.restore(&era, &file, &stop));
        match timeout(PATIENCE, restoring).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(model = %self.model, %error, "history snapshot was not read"),
            Err(_elapsed) => tracing::warn!(
                model = %self.model, waited = ?PATIENCE,
                "history snapshot takes long to read: the worker joins meanwhile, and F1 is too low until it is read"
            ),
        }
    }

    /// Takes back what a file kept, as long as that is of use. Blocks.
    fn restore(&self, era: &Arc<Era>, file: &HistoryFile, stop: &CancellationToken) {
        let is_current = || self.era.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, era));
        let is_wanted = || is_current() && !stop.is_cancelled();
        let domain = Domain::of(&self.model, era.size);
        let ages = file.restore(&domain, &self.set, self.started.elapsed(), is_wanted);
        if let Some(ages) = ages.filter(|_| is_current()) {
            *self.ages.lock() = ages;
            self.show();
        }
    }

    /// The fleet's smallest block has this size now; `None` while there is no fleet. Another size than before counts once it
    /// has lasted.
    pub(crate) fn settle(&self, smallest: Option<BlockSize>) {
        let mut since = self.differs_since.lock();
        let Some(size) = smallest.filter(|size| self.size().is_some_and(|known| known != *size)) else {
            *since = None;
            return;
        };
        if since.get_or_insert_with(Instant::now).elapsed() >= SIZE_SETTLES_AFTER {
            *since = None;
            self.begin(size);
        }
    }

    /// The pool's smallest block has this size from now on. Blocks of another size are of no use to anybody any more.
    fn begin(&self, size: BlockSize) {
        let _one_at_a_time = self.beginning.lock();
        let before = self.size();
        if before == Some(size) {
            return;
        }
        let forgotten = self.set.resident().get();
        if let Some(before) = before.filter(|_| forgotten > 0) {
            let model = &self.model;
            tracing::warn!(
                %model, %before, now = %size, forgotten,
                "the smallest block of the pool has another size: the history is emptied and begins anew"
            );
            self.set.clear();
            *self.ages.lock() = Ages::default();
        }
        let domain = Domain::of(&self.model, size);
        let sharing = self.cluster.as_ref().map(|cluster| cluster.share(domain, Arc::clone(&self.set)));
        self.era.store(Some(Arc::new(Era { size, sharing, is_restored: AtomicBool::new(false) })));
    }

    /// What its hashes mean; `None` until the block size is known.
    pub(crate) fn domain(&self) -> Option<Domain> {
        self.size().map(|size| Domain::of(&self.model, size))
    }

    /// When it was taught, to be kept over a restart.
    fn saved_ages(&self) -> Vec<AgeMark> {
        self.ages.lock().save(self.started.elapsed(), &self.set)
    }

    /// Shows how full it is, and notes how old that is.
    pub(crate) fn show(&self) {
        let now = self.started.elapsed();
        self.ages.lock().mark(now, self.set.taught());
        self.metrics.show(&self.levels());
    }

    /// How far back it reaches.
    pub(crate) fn reach(&self) -> Reach {
        let levels = self.levels();
        let rate = self.ages.lock().rate(RATE_WINDOW).filter(|rate| *rate > 0.0);
        let seconds = rate.map(|rate| levels.capacity.get() as f64 / rate);
        let at_present_rate = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Reach { levels, at_present_rate }
    }

    /// The block size that it knows prompts by; `None` before the first worker.
    pub(crate) fn size(&self) -> Option<BlockSize> {
        self.era.load().as_ref().map(|era| era.size)
    }

    fn levels(&self) -> HistoryLevels {
        let oldest = self.ages.lock().oldest(self.started.elapsed(), &self.set);
        HistoryLevels {
            blocks: self.set.resident(),
            block_size: self.size(),
            bytes: self.set.bytes(),
            capacity: self.set.capacity(),
            capacity_bytes: self.set.capacity_bytes(),
            oldest,
        }
    }
}

#[cfg(test)]
mod tests;
