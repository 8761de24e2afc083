//! Keeps the history over a restart of the router.
//!
//! Of a configured pool there is one file, with a section for each model that it serves. A worker's first requests must
//! find what was known before, so its section is read before the worker joins. The file is not replaced before every
//! section of it has found its pool: a router that waits for a slow worker must not forget what it knew of its model.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kvroute_history::{Ages, Domain, History, Restored, Section, read_snapshot, write_snapshot};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::PoolHistory;
use crate::config::PoolConfig;
use crate::plan::RouterError;
use crate::snapshot_path::SnapshotPath;

/// How long sections wait for their pools. Afterwards their models are taken to be gone for good.
const SECTIONS_WAIT: Duration = Duration::from_secs(15 * 60);

/// Models that a pool without a configured one may have discovered, in one file.
const MOST_MODELS: u64 = 16;

/// The snapshot of one configured pool.
#[derive(Debug)]
pub(crate) struct HistoryFile {
    path: SnapshotPath,
    /// Bytes that it may have.
    longest: u64,
    started: Instant,
    /// Sections of the file that no pool has read yet.
    waiting: Mutex<Vec<Domain>>,
}

// === impl HistoryFile ===

impl HistoryFile {
    /// Looks into the file of a pool. Whatever is wrong with what is in it is said, and the history starts empty.
    ///
    /// # Errors
    /// The path names something that a file cannot replace.
    pub(crate) fn open(path: &Path, pool: &PoolConfig) -> Result<Self, RouterError> {
        let models = if pool.model.is_some() { 1 } else { MOST_MODELS };
        let file = Self {
            path: SnapshotPath::new(path, "pool.history.snapshot")?,
            longest: (pool.history.bytes as u64).saturating_mul(models).saturating_add(1 << 20),
            started: Instant::now(),
            waiting: Mutex::default(),
        };
        match file.read(|_| None) {
            Ok(sections) => file.waiting.lock().extend(sections.into_iter().map(|section| section.domain)),
            Err(why) => file.refuse(&why),
        }
        Ok(file)
    }

    /// Teaches a history what the file knows of its domain. Blocks.
    pub(crate) fn restore(&self, domain: &Domain, set: &Arc<History>, now: Duration) -> Option<Ages> {
        let is_there = {
            let mut waiting = self.waiting.lock();
            let before = waiting.len();
            waiting.retain(|kept| kept.model != domain.model);
            waiting.len() < before
        };
        if !is_there {
            return None;
        }
        let sections = self.read(|found| (found == domain).then(|| Arc::clone(set)));
        let sections = sections.inspect_err(|why| self.refuse(why)).ok()?;
        let file = self.path.path().display();
        let Some(section) = sections.iter().find(|section| section.domain == *domain) else {
            tracing::warn!(
                %file, %domain,
                "history snapshot is of another block size or another version: the history of the model starts empty"
            );
            return None;
        };
        tracing::info!(%file, %domain, blocks = section.hashes.get(), "history snapshot read");
        Some(Ages::restore(&section.ages, self.age(), now, set))
    }

    /// Writes what these histories hold. Blocks.
    pub(crate) fn save(&self, histories: &[Arc<PoolHistory>]) {
        if self.must_wait() {
            return;
        }
        let began = Instant::now();
        let known = histories.iter().filter_map(|history| Some((history.domain()?, history)));
        let known: Vec<_> = known.collect();
        let sections = known.iter().map(|(domain, history)| Section {
            domain,
            history: &history.set,
            ages: history.saved_ages(),
        });
        let sections: Vec<_> = sections.collect();
        let written = self.path.replace(|file| {
            let mut out = BufWriter::new(file);
            write_snapshot(&mut out, &sections)?;
            out.flush()
        });
        match written {
            Ok(()) => histories.iter().for_each(|history| history.metrics.snapshot_written(began.elapsed())),
            Err(error) => {
                let file = self.path.path().display();
                tracing::warn!(%file, %error, "history snapshot cannot be written");
            }
        }
    }

    /// Whether some section has no pool yet that would write it anew.
    fn must_wait(&self) -> bool {
        let mut waiting = self.waiting.lock();
        if self.started.elapsed() >= SECTIONS_WAIT {
            for domain in waiting.drain(..) {
                let file = self.path.path().display();
                tracing::info!(%file, %domain, "no worker serves the model any more: its history is dropped");
            }
        }
        !waiting.is_empty()
    }

    fn read(&self, accept: impl FnMut(&Domain) -> Option<Arc<History>>) -> Result<Vec<Restored>, String> {
        let opened = self.path.open().map_err(|error| error.to_string())?;
        let Some((mut file, _)) = opened else { return Ok(Vec::new()) };
        read_snapshot(&mut file, self.longest, accept).map_err(|error| error.to_string())
    }

    fn refuse(&self, why: &str) {
        let file = self.path.path().display();
        tracing::warn!(%file, why, "history snapshot refused, the history starts empty; the file will be replaced");
    }

    /// How long ago it was written. A clock that was set back makes it as good as new.
    fn age(&self) -> Duration {
        let written = self.path.open().ok().flatten().and_then(|(_, found)| found.modified().ok());
        let age = written.and_then(|written| SystemTime::now().duration_since(written).ok());
        age.unwrap_or_default()
    }
}
