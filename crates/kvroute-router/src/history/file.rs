//! Keeps the history over a restart of the router.
//!
//! Of a configured pool there is one file, with a section for each model that it serves. A worker's first requests should
//! find what was known before, so its section is read before the worker joins. The file is not replaced before every
//! section of it has found its pool and was read to its end: a router that waits for a slow worker, or is stopped while
//! it reads, must not forget what it knew.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kvroute_history::{
    Ages, Domain, History, Restored, Section, SnapshotError, read_snapshot_while, write_snapshot,
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::PoolHistory;
use crate::plan::RouterError;
use crate::snapshot_path::SnapshotPath;
use crate::wall_clock;

/// How long sections wait for their pools. Afterwards their models are taken to be gone for good.
const SECTIONS_WAIT: Duration = Duration::from_secs(15 * 60);

/// Bytes that a file may have. What is in it beyond a history's budget goes, oldest first.
const LONGEST: u64 = 64 << 30;

/// The snapshot of one configured pool.
#[derive(Debug)]
pub(crate) struct HistoryFile {
    path: SnapshotPath,
    started: Instant,
    /// Sections of the file that no pool has read to their end yet.
    waiting: Mutex<Vec<Domain>>,
}

// === impl HistoryFile ===

impl HistoryFile {
    /// Looks into the file of a pool. Whatever is wrong with what is in it is said, and the history starts empty.
    ///
    /// # Errors
    /// The path names something that a file cannot replace.
    pub(crate) fn open(path: &Path) -> Result<Self, RouterError> {
        let file = Self {
            path: SnapshotPath::new(path, "pool.history.snapshot")?,
            started: Instant::now(),
            waiting: Mutex::default(),
        };
        match file.read(|_| None, || true) {
            Ok(sections) => file.waiting.lock().extend(sections.into_iter().map(|section| section.domain)),
            Err(why) => file.refuse(&why),
        }
        Ok(file)
    }

    /// Teaches a history what the file knows of its domain, as long as that is wanted. Blocks.
    pub(crate) fn restore(
        &self,
        domain: &Domain,
        set: &Arc<History>,
        now: Duration,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Ages> {
        let file = self.path.path().display();
        if !self.waiting.lock().contains(domain) {
            self.tell_of_others(domain);
            return None;
        }
        tracing::info!(%file, %domain, "reading history snapshot");
        let sections = match self.read(|found| (found == domain).then(|| Arc::clone(set)), is_wanted) {
            Err(SnapshotError::Stopped) => return None,
            sections => sections,
        };
        self.waiting.lock().retain(|waiting| waiting != domain);
        let sections = sections.inspect_err(|why| self.refuse(why)).ok()?;
        let section = sections.iter().find(|section| section.domain == *domain)?;
        tracing::info!(%file, %domain, blocks = section.hashes.get(), "history snapshot read");
        Some(Ages::restore(&section.ages, self.age(), now, set))
    }

    /// The model is known by other hashes, which may be those of a worker that is still to come.
    fn tell_of_others(&self, domain: &Domain) {
        let waiting = self.waiting.lock();
        for other in waiting.iter().filter(|other| other.model == domain.model) {
            let file = self.path.path().display();
            tracing::warn!(
                %file, %domain, %other, waits = ?SECTIONS_WAIT,
                "history snapshot is of another block size or another version, and is kept for a while in case that a \
                 worker of its kind joins; the history of the model starts empty"
            );
        }
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

    fn read(
        &self,
        accept: impl FnMut(&Domain) -> Option<Arc<History>>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<Vec<Restored>, SnapshotError> {
        let Some((mut file, _)) = self.path.open()? else { return Ok(Vec::new()) };
        read_snapshot_while(&mut file, LONGEST, accept, is_wanted)
    }

    fn refuse(&self, why: &SnapshotError) {
        let file = self.path.path().display();
        tracing::warn!(%file, %why, "history snapshot refused, the history starts empty; the file will be replaced");
    }

    /// How long ago it was written.
    fn age(&self) -> Duration {
        let written = self.path.open().ok().flatten().and_then(|(_, found)| found.modified().ok());
        written.map(wall_clock::age_of).unwrap_or_default()
    }
}
