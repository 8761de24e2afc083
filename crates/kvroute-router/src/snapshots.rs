//! Keeps the index over a restart of the router.
//!
//! A router that starts empty sends every conversation to a cold worker until the engines have said again what they
//! hold. What was known a minute ago is mostly still true, and the event streams prove it or refute it at once: a rank
//! is restored together with the last message that it had applied, and its stream goes on from there or clears it.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{ModelName, WorkerRank};
use kvroute_index::{RankSnapshot, Snapshot};
use parking_lot::Mutex;

use crate::config::PoolConfig;
use crate::plan::RouterError;
use crate::pool::Pool;
use crate::rank::Rank;
use crate::snapshot_path::SnapshotPath;

/// How often the index is written.
pub(crate) const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// The snapshot of one configured pool.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    path: SnapshotPath,
    /// What the file had of ranks that have not joined yet.
    waiting: Mutex<Vec<RankSnapshot>>,
}

// === impl SnapshotFile ===

impl SnapshotFile {
    /// Reads the file of a pool. Whatever is wrong with what is in it is said, and the index starts empty. Ranks of
    /// workers that the pool does not have any more are dropped, so that the file does not grow with each new fleet.
    ///
    /// # Errors
    /// The path names something that a file cannot replace.
    pub(crate) fn load(path: &Path, pool: &PoolConfig) -> Result<Self, RouterError> {
        let longest = 2 * pool.index.bytes as u64;
        let path = SnapshotPath::new(path, "pool.index.snapshot")?;
        let mut waiting = match read(&path, longest) {
            Ok(snapshot) => snapshot.ranks,
            Err(why) => {
                tracing::warn!(
                    file = %path.path().display(), why,
                    "index snapshot refused, the index starts empty; the file will be replaced"
                );
                Vec::new()
            }
        };
        waiting.retain(|kept| pool.workers.iter().any(|worker| worker.id().as_str() == kept.worker));
        if !waiting.is_empty() {
            let ranks = waiting.len();
            tracing::info!(file = %path.path().display(), ranks, "index snapshot read, every rank waits for its worker");
        }
        Ok(Self { path, waiting: Mutex::new(waiting) })
    }

    /// Takes out what is kept of a rank.
    pub(crate) fn take(&self, model: &ModelName, name: &WorkerRank) -> Option<RankSnapshot> {
        let mut waiting = self.waiting.lock();
        let position = waiting.iter().position(|kept| {
            kept.model == model.as_str()
                && kept.worker == name.worker.as_str()
                && kept.dp_rank == name.dp_rank.get()
        })?;
        Some(waiting.swap_remove(position))
    }

    /// Writes what these pools know, and what is still kept of workers that have not joined. Blocks.
    pub(crate) fn save(&self, pools: &[Arc<Pool>]) {
        let mut ranks = self.waiting.lock().clone();
        for pool in pools {
            ranks.extend(pool.fleet().ranks.iter().filter_map(|rank| snapshot_of(pool, rank)));
        }
        if let Err(error) = self.path.replace(|file| file.write_all(&Snapshot { ranks }.encode())) {
            tracing::warn!(file = %self.path.path().display(), %error, "index snapshot cannot be written");
        }
    }
}

/// What is in a file; nothing if there is none. The error says why it cannot be used.
fn read(path: &SnapshotPath, longest: u64) -> Result<Snapshot, String> {
    let opened = path.open().map_err(|error| error.to_string())?;
    let Some((mut file, found)) = opened else { return Ok(Snapshot::default()) };
    let length = found.len();
    if length > longest {
        return Err(format!("it has {length} bytes, more than an index within pool.index.bytes can fill"));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Snapshot::decode(&bytes).map_err(|error| error.to_string())
}

/// A rank whose stream can be resumed; what is only remembered grows old too soon to be kept.
fn snapshot_of(pool: &Pool, rank: &Rank) -> Option<RankSnapshot> {
    let position = rank.source.as_ref()?.position()?;
    let last = (*position)?;
    Some(RankSnapshot {
        model: pool.model().to_string(),
        worker: rank.name.worker.to_string(),
        dp_rank: rank.name.dp_rank.get(),
        last: Some(last),
        export: pool.knowledge().index().export(rank.slot),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;

    fn at(path: &Path) -> SnapshotPath {
        SnapshotPath::new(path, "pool.index.snapshot").unwrap()
    }

    fn pool() -> PoolConfig {
        PoolConfig::of_workers(vec![WorkerConfig::at("http://a:1")])
    }

    fn rank(worker: &str) -> RankSnapshot {
        RankSnapshot { model: "m".to_owned(), worker: worker.to_owned(), ..RankSnapshot::default() }
    }

    #[test]
    fn an_absent_file_is_an_empty_start_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.snap");
        assert_eq!(read(&at(&path), 100).unwrap(), Snapshot::default());
        std::fs::write(&path, b"something else").unwrap();
        assert!(!read(&at(&path), 100).unwrap_err().is_empty());
        assert!(read(&at(&path), 5).unwrap_err().contains("14 bytes"));
        assert!(SnapshotFile::load(&path, &pool()).unwrap().waiting.lock().is_empty());
    }

    #[test]
    fn workers_that_are_gone_for_good_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.snap");
        let snapshot = Snapshot { ranks: vec![rank("a:1"), rank("gone:1")] };
        std::fs::write(&path, snapshot.encode()).unwrap();
        let file = SnapshotFile::load(&path, &pool()).unwrap();
        file.save(&[]);
        assert_eq!(read(&at(&path), 1000).unwrap().ranks, [rank("a:1")]);
    }
}
