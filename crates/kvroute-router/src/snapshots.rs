//! Keeps the index over a restart of the router.
//!
//! A router that starts empty sends every conversation to a cold worker until the engines have said again what they
//! hold. What was known a minute ago is mostly still true, and the event streams prove it or refute it at once: a rank
//! is restored together with the last message that it had applied, and its stream goes on from there or clears it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{ModelName, WorkerRank};
use kvroute_index::{RankSnapshot, Snapshot};
use parking_lot::Mutex;

use crate::config::PoolConfig;
use crate::plan::RouterError;
use crate::pool::Pool;
use crate::rank::Rank;

/// How often the index is written.
pub(crate) const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// The snapshot of one configured pool.
#[derive(Debug)]
pub(crate) struct SnapshotFile {
    path: PathBuf,
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
        let mut waiting = match read(path, longest) {
            Ok(snapshot) => snapshot.ranks,
            Err(ReadError::Absent) => Vec::new(),
            Err(ReadError::NoFile) => {
                return Err(RouterError::Contradiction(format!(
                    "pool.index.snapshot is {path:?}, which is no regular file; name a file of its own"
                )));
            }
            Err(ReadError::Refused(why)) => {
                tracing::warn!(
                    file = %path.display(), why,
                    "index snapshot refused, the index starts empty; the file will be replaced"
                );
                Vec::new()
            }
        };
        waiting.retain(|kept| pool.workers.iter().any(|worker| worker.id().as_str() == kept.worker));
        if !waiting.is_empty() {
            let ranks = waiting.len();
            tracing::info!(file = %path.display(), ranks, "index snapshot read, every rank waits for its worker");
        }
        Ok(Self { path: path.to_owned(), waiting: Mutex::new(waiting) })
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
        if let Err(error) = write(&self.path, &Snapshot { ranks }.encode()) {
            tracing::warn!(file = %self.path.display(), %error, "index snapshot cannot be written");
        }
    }
}

/// Why a file gives no snapshot.
#[derive(Debug)]
enum ReadError {
    Absent,
    NoFile,
    Refused(String),
}

/// A device or a pipe may never end, and replacing one would take it away from everybody else.
fn read(path: &Path, longest: u64) -> Result<Snapshot, ReadError> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::Absent,
        _ => ReadError::Refused(error.to_string()),
    };
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(ReadError::NoFile);
    }
    if found.len() > longest {
        let length = found.len();
        return Err(ReadError::Refused(format!(
            "it has {length} bytes, more than an index within pool.index.bytes can fill"
        )));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    Snapshot::decode(&bytes).map_err(|error| ReadError::Refused(error.to_string()))
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

/// Replaces the file in one step: whoever reads it sees the old one or the new one, whole.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    let written = write_through(&fresh, bytes).and_then(|()| std::fs::rename(&fresh, path));
    if written.is_err() {
        let _absent_or_stuck = std::fs::remove_file(&fresh);
    }
    written
}

fn write_through(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WorkerConfig;

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.snap");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let gone = folder.path().join("no such folder").join("index.snap");
        write(&gone, b"new").unwrap_err();
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
        assert!(matches!(read(&path, 100), Err(ReadError::Absent)));
        std::fs::write(&path, b"something else").unwrap();
        assert!(matches!(read(&path, 100), Err(ReadError::Refused(why)) if !why.is_empty()));
        assert!(matches!(read(&path, 5), Err(ReadError::Refused(why)) if why.contains("14 bytes")));
        assert!(SnapshotFile::load(&path, &pool()).unwrap().waiting.lock().is_empty());
    }

    #[test]
    fn what_is_no_file_is_an_error_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null")] {
            let error = SnapshotFile::load(path, &pool()).unwrap_err().to_string();
            assert!(error.contains("pool.index.snapshot") && error.contains("no regular file"), "{error}");
        }
    }

    #[test]
    fn workers_that_are_gone_for_good_are_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.snap");
        let snapshot = Snapshot { ranks: vec![rank("a:1"), rank("gone:1")] };
        write(&path, &snapshot.encode()).unwrap();
        let file = SnapshotFile::load(&path, &pool()).unwrap();
        file.save(&[]);
        assert_eq!(read(&path, 1000).unwrap().ranks, [rank("a:1")]);
    }
}
