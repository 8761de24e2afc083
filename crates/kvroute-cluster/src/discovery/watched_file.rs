//! A file that something else writes, looked at now and then.
//!
//! Looked at rather than subscribed to: events of a file system do not pass mounts and containers alike, and a mounted
//! configuration is replaced by renaming links that lead to it. Its content is compared, not its times, which are too coarse
//! for two changes in a row. A change counts once two looks in a row have seen the same: who writes a file takes a moment,
//! and the half of it may make sense, too.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

/// A file and what was last seen of it.
#[derive(Debug)]
pub struct WatchedFile {
    path: PathBuf,
    /// What its owner was told.
    told: Option<u64>,
    /// What the last look saw.
    seen: Option<u64>,
}

// === impl WatchedFile ===

impl WatchedFile {
    /// A file of which nothing was seen yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), told: None, seen: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stands in it now, whether it has changed or not. That counts as told.
    pub async fn read(&mut self) -> io::Result<Vec<u8>> {
        let content = self.look().await;
        self.told = self.seen;
        content
    }

    /// What stands in it, where that is another than was told last and stays so for two looks in a row. A file that cannot be
    /// read is such a change, too.
    pub async fn changed(&mut self) -> Option<io::Result<Vec<u8>>> {
        let before = self.seen;
        let content = self.look().await;
        if self.seen == self.told || self.seen != before {
            return None;
        }
        self.told = self.seen;
        Some(content)
    }

    async fn look(&mut self) -> io::Result<Vec<u8>> {
        let path = self.path.clone();
        let content = spawn_blocking(move || content_of(&path)).await.map_err(io::Error::other).flatten();
        let mut hasher = DefaultHasher::new();
        content.as_ref().map_err(io::Error::kind).hash(&mut hasher);
        self.seen = Some(hasher.finish());
        content
    }
}

/// Of a regular file: whoever reads a pipe may wait for ever, and takes what somebody else should get.
fn content_of(path: &Path) -> io::Result<Vec<u8>> {
    match std::fs::metadata(path)?.is_file() {
        true => std::fs::read(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_counts_once_it_has_settled_and_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workers");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let mut file = WatchedFile::new(&path);
        assert_eq!(file.read().await.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(file.changed().await.is_none(), "it is as it was told");
        write("a");
        assert!(file.changed().await.is_none(), "it may be half written");
        write("ab");
        assert!(file.changed().await.is_none(), "it was half written");
        assert_eq!(file.changed().await.unwrap().unwrap(), b"ab");
        assert!(file.changed().await.is_none());
        write("ac");
        assert_eq!(file.read().await.unwrap(), b"ac", "who asks is told at once");
        assert!(file.changed().await.is_none());
        std::fs::remove_file(&path).unwrap();
        assert!(file.changed().await.is_none());
        assert!(file.changed().await.unwrap().is_err());
        assert!(file.changed().await.is_none(), "once");
    }

    #[tokio::test]
    async fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let error = WatchedFile::new(folder.path()).read().await.unwrap_err();
        assert_eq!(error.to_string(), "it is no regular file");
    }

    #[tokio::test]
    async fn what_changes_back_before_it_settles_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("workers");
        std::fs::write(&path, "a").unwrap();
        let mut file = WatchedFile::new(&path);
        assert_eq!(file.read().await.unwrap(), b"a");
        std::fs::write(&path, "").unwrap();
        assert!(file.changed().await.is_none());
        std::fs::write(&path, "a").unwrap();
        assert!(file.changed().await.is_none());
        assert!(file.changed().await.is_none());
    }
}
