//! What can be wrong with the files of a TLS connection.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// A file, or a pair of files, that no TLS connection can be made with.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The system does not hand it out.
    #[error("{file:?} cannot be read: {source}; name a file that this user may read")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
    /// A file for certificates has none.
    #[error("{0:?} holds no certificate; it must be PEM, with a line that reads BEGIN CERTIFICATE")]
    NoCertificate(PathBuf),
    /// A file for a private key has none.
    #[error(
        "{0:?} holds no private key; it must be PEM, unencrypted, with a line that reads BEGIN PRIVATE KEY"
    )]
    NoKey(PathBuf),
    /// What it holds is not understood.
    #[error("{file:?} cannot be used: {reason}")]
    Unusable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It is not valid at this time.
    #[error("the certificate in {file:?} {problem}; replace it")]
    NotValidNow {
        /// The file.
        file: PathBuf,
        /// Whether it is over or has not begun.
        problem: String,
    },
    /// Certificate and key belong to others.
    #[error(
        "the private key in {key:?} does not belong to the certificate in {certificate:?}; name the two files of one pair"
    )]
    NoPair {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
    },
    /// There is nobody to verify a worker by.
    #[error("this system has no certificates of authorities ({0}); install them, or set pool.tls.ca")]
    NoSystemAuthorities(String),
    /// The library refuses what was put together.
    #[error("no TLS connection can be made of these settings: {0}")]
    Unsupported(String),
}

// === impl TlsError ===

impl TlsError {
    /// A file of which the library says what is wrong.
    pub(super) fn unusable(file: &Path, reason: &impl Display) -> Self {
        Self::Unusable { file: file.to_owned(), reason: reason.to_string() }
    }
}
