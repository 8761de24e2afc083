//! A file beside the configuration whose content is a part of it: keys, tokens, certificates.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::PathBuf;

/// Such a file as it was when the configuration was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The setting that names it, such as `server.tls.cert`.
    pub setting: String,
    /// Where it is.
    pub path: PathBuf,
    /// What stood in it.
    pub content: Fingerprint,
}

/// Tells two contents of a file apart. Contents are secrets, so neither they nor their hash are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(u64);

// === impl NamedFile ===

impl NamedFile {
    /// The file as it is now.
    pub fn read(setting: String, path: PathBuf) -> Self {
        let content = Fingerprint::of(&std::fs::read(&path));
        Self { setting, path, content }
    }
}

// === impl Fingerprint ===

impl Fingerprint {
    fn of(content: &io::Result<Vec<u8>>) -> Self {
        let mut hasher = DefaultHasher::new();
        content.as_ref().map_err(io::Error::kind).hash(&mut hasher);
        Self(hasher.finish())
    }
}

impl std::fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fingerprint").finish_non_exhaustive()
    }
}
