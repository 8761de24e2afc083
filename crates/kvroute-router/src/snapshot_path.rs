//! Files that are replaced in one step, so that whoever reads them sees the old one or the new one, whole.

use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::plan::RouterError;

/// Where a snapshot stands.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotPath(PathBuf);

// === impl SnapshotPath ===

impl SnapshotPath {
    /// A path of which the setting `key` says that it is to be replaced now and then. A device or a pipe may never end, and
    /// replacing one would take it away from everybody else.
    ///
    /// # Errors
    /// It names something that is no regular file.
    pub(crate) fn new(path: &Path, key: &str) -> Result<Self, RouterError> {
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(RouterError::Contradiction(format!(
                "{key} is {path:?}, which is no regular file; name a file of its own"
            )));
        }
        // What a link leads to is replaced, not the link.
        Ok(Self(std::fs::canonicalize(path).unwrap_or_else(|_absent| path.to_owned())))
    }

    /// The path itself.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Opens what is there; `None` if nothing is.
    pub(crate) fn open(&self) -> io::Result<Option<(File, Metadata)>> {
        match File::open(&self.0) {
            Ok(file) => file.metadata().map(|found| Some((file, found))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces it by what `fill` writes.
    pub(crate) fn replace(&self, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let fresh = self.0.with_file_name(name);
        let written = write_through(&fresh, fill).and_then(|()| std::fs::rename(&fresh, &self.0));
        if written.is_err() {
            let _absent_or_stuck = std::fs::remove_file(&fresh);
        }
        written
    }
}

fn write_through(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut file = File::create(path)?;
    fill(&mut file)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn write(path: &SnapshotPath, bytes: &[u8]) -> io::Result<()> {
        path.replace(|file| file.write_all(bytes))
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = SnapshotPath::new(&folder.path().join("index.snap"), "key").unwrap();
        assert!(path.open().unwrap().is_none());
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        path.replace(|_| Err(io::Error::other("disk full"))).unwrap_err();
        assert_eq!(std::fs::read(path.path()).unwrap(), b"new");
        assert_eq!(path.open().unwrap().unwrap().1.len(), 3);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let gone = SnapshotPath(folder.path().join("no such folder").join("index.snap"));
        write(&gone, b"new").unwrap_err();
    }

    #[test]
    fn what_is_no_file_is_an_error_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null")] {
            let error = SnapshotPath::new(path, "pool.index.snapshot").unwrap_err().to_string();
            assert!(error.contains("pool.index.snapshot") && error.contains("no regular file"), "{error}");
        }
    }
}
