//! What engines say of their own load, kept for the decisions.
//!
//! The load book knows what this router sent. An engine that others use too has more to do than the book says, so it is
//! asked now and then. What it said is old when it is read and grows older: beyond three intervals it is not used, and
//! the decisions see the book alone.
//!
//! A decision reads the latest word of every rank, so that takes no lock: it is three numbers, and the time, which is
//! written last, vouches for the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvroute_core::Blocks;
use kvroute_engine::{EngineLoad, EngineLoads, HttpClient, fetch_load};
use kvroute_select::ForeignLoad;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::log_gate::LogGate;
use crate::rank::Rank;

/// Intervals after which the latest word is too old to be used.
const USABLE_INTERVALS: u32 = 3;

/// However often an engine is to be asked, not more often than this.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// Bounds of the time that an engine has for its answer, which is the interval otherwise: a busy one may be slow.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The latest word of a rank's engine.
#[derive(Debug)]
pub(crate) struct ToldLoad {
    interval: Duration,
    capacity: Option<Blocks>,
    since: Instant,
    /// Nanoseconds after `since`, plus 1; 0 before the first word.
    told_at: AtomicU64,
    requests: AtomicU64,
    blocks: AtomicU64,
}

/// Asks one worker.
struct Asker {
    ranks: Vec<Arc<Rank>>,
    client: HttpClient,
    patience: Duration,
    complaints: LogGate,
}

/// Asks the worker of these ranks for their load until told to stop.
pub(crate) async fn follow(
    ranks: Vec<Arc<Rank>>,
    client: HttpClient,
    interval: Duration,
    stop: CancellationToken,
) {
    let patience = interval.clamp(PATIENCE.0, PATIENCE.1);
    let asker = Asker { ranks, client, patience, complaints: LogGate::default() };
    let _stopped = stop.run_until_cancelled(asker.ask_every(interval)).await;
}

// === impl ToldLoad ===

impl ToldLoad {
    /// Of an engine that will be asked so often, and whose rank can hold so many blocks where that is known.
    pub(crate) fn new(interval: Duration, capacity: Option<Blocks>) -> Self {
        Self {
            interval: interval.max(SHORTEST_INTERVAL),
            capacity,
            since: Instant::now(),
            told_at: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
        }
    }

    /// The load as a decision may use it: zero where nothing is known, or nothing recent enough.
    pub(crate) fn foreign(&self, now: Instant) -> ForeignLoad {
        let told_at = self.told_at.load(Ordering::Acquire);
        if told_at == 0 || self.age_of(told_at, now) > self.interval * USABLE_INTERVALS {
            return ForeignLoad::default();
        }
        ForeignLoad {
            requests: self.requests.load(Ordering::Relaxed),
            blocks: Blocks::new(self.blocks.load(Ordering::Relaxed)),
        }
    }

    /// Time since the latest word; before the first, since it is waited for.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.age_of(self.told_at.load(Ordering::Acquire), now)
    }

    fn told(&self, load: &EngineLoad, now: Instant) {
        let blocks = self.capacity.zip(load.kv_usage).map_or(0, |(capacity, usage)| {
            let held = capacity.get() as f64 * usage;
            held.round() as u64
        });
        self.requests.store(load.running + load.waiting, Ordering::Relaxed);
        self.blocks.store(blocks, Ordering::Relaxed);
        let elapsed = u64::try_from((now - self.since).as_nanos()).unwrap_or(u64::MAX);
        self.told_at.store(elapsed.saturating_add(1), Ordering::Release);
    }

    fn age_of(&self, told_at: u64, now: Instant) -> Duration {
        let told = Duration::from_nanos(told_at.saturating_sub(1));
        now.duration_since(self.since).saturating_sub(told)
    }
}

// === impl Asker ===

impl Asker {
    async fn ask_every(&self, interval: Duration) {
        let Some(first) = self.ranks.first() else { return };
        if !first.engine.tells_load() {
            let (worker, engine) = (first.worker.id(), first.engine);
            let remedy = engine.load_remedy();
            return tracing::warn!(%worker, %engine, remedy, "engine cannot be asked for its load");
        }
        let mut ticks = tokio::time::interval(interval.max(SHORTEST_INTERVAL));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // What is wrong with a worker that takes no requests is told elsewhere.
            if first.worker.takes_requests() {
                self.ask(first).await;
            }
            self.show_ages();
        }
    }

    async fn ask(&self, first: &Rank) {
        let url = &first.worker.config().url;
        match fetch_load(&self.client, url, first.engine, self.patience).await {
            Ok(loads) => self.take(&loads),
            Err(error) => self.complain(first, &error, error.remedy(first.engine)),
        }
    }

    fn take(&self, loads: &EngineLoads) {
        let now = Instant::now();
        for rank in &self.ranks {
            let Some(told) = &rank.told_load else { continue };
            match loads.of(rank.name.dp_rank, rank.ranks_of_worker) {
                Some(load) => {
                    told.told(&load, now);
                    rank.metrics.set_engine_load(load.running, load.waiting);
                }
                None => self.complain(
                    rank,
                    &format_args!("the answer says nothing of rank {}", rank.name.dp_rank),
                    "see that the worker's dp_ranks are those that it has",
                ),
            }
        }
    }

    fn show_ages(&self) {
        let now = Instant::now();
        for rank in &self.ranks {
            if let Some(told) = &rank.told_load {
                rank.metrics.set_engine_load_age(told.age(now));
            }
        }
    }

    fn complain(&self, rank: &Rank, cause: &dyn std::fmt::Display, remedy: &str) {
        let Some(unlogged) = self.complaints.open() else { return };
        let worker = rank.worker.id();
        tracing::warn!(
            %worker, %cause, remedy, unlogged,
            "engine does not tell its load: decisions count only what this router sent it"
        );
    }
}

#[cfg(test)]
mod tests;
