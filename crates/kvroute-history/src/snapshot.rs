//! Histories as bytes, to be kept over a restart of the router.
//!
//! A full history is larger than anything that should be held twice, so both directions are streams: a history is written
//! piece by piece while it goes on being taught, without its length being known before. Reading goes through the file twice:
//! once for its checksum (XXH3-128, over everything before it) and its form, and only then to teach. A file that is damaged
//! anywhere teaches nothing: half a history would be believed.
//!
//! ```text
//! "kvrhistr"  version: u32  sections: u32  section…  checksum: u128
//! section  model: text  block_size: u32  hash_scheme: text  namespace_scheme: text
//!          marks: u32  (age in nanoseconds: u64  taught since: u64)…   oldest first
//!          pieces: (hashes: u32 > 0  hash: u64…)…  0: u32              oldest first
//! text     bytes: u32  UTF-8
//! ```
//!
//! Every number is little-endian.

mod digest;
mod read;
mod write;

use std::io;

use kvroute_core::Blocks;

use crate::{AgeMark, Domain, History};

pub use read::{read_snapshot, read_snapshot_while};
pub use write::write_snapshot;

/// How every snapshot begins.
const MAGIC: &[u8; 8] = b"kvrhistr";

/// The one version that this build writes and reads. Any change of the format is another version.
const VERSION: u32 = 1;

/// Bytes of the checksum at the end.
const CHECKSUM: usize = size_of::<u128>();

/// Sections of one file.
const MOST_SECTIONS: u32 = 4096;

/// Bytes of one text.
const LONGEST_TEXT: u32 = 4096;

/// Marks of one section.
const MOST_MARKS: u32 = 4096;

/// Hashes of one piece.
const LARGEST_PIECE: u32 = 1 << 16;

/// One history to be written.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// What its hashes mean.
    pub domain: &'a Domain,
    /// What is written: what is resident at that moment.
    pub history: &'a History,
    /// When it was taught.
    pub ages: Vec<AgeMark>,
}

/// One section that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// What its hashes mean.
    pub domain: Domain,
    /// When they were taught, relative to the writing of the file.
    pub ages: Vec<AgeMark>,
    /// Hashes that the section holds.
    pub hashes: Blocks,
    /// How many of them the history took that was found for it; `None` if there was none.
    pub taught: Option<Blocks>,
}

/// Why a file cannot be used. Nothing was taught then.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// It could not be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It was not wanted any more. A part of it was taught.
    #[error("not read to its end: it is not wanted any more")]
    Stopped,
    /// The file is of another kind, or empty.
    #[error("not a kvroute history snapshot")]
    NotASnapshot,
    /// It is longer than what the histories may hold together.
    #[error("{bytes} bytes, where at most {longest} are expected")]
    TooLong {
        /// What it has.
        bytes: u64,
        /// What it may have.
        longest: u64,
    },
    /// Another version of kvroute wrote it.
    #[error("version {found}, this build reads {VERSION}")]
    Version {
        /// What the file says.
        found: u32,
    },
    /// What is written is not what is there.
    #[error("checksum differs: the file is damaged or cut short")]
    Checksum,
    /// The checksum holds, but the content makes no sense: whoever wrote it was not this format's writer.
    #[error("malformed at byte {at}: {what}")]
    Malformed {
        /// Bytes from the beginning of the file.
        at: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
