//! The index as bytes, to be kept over a restart of the router.
//!
//! Every number has a fixed width, little-endian: nearly all of a snapshot are 64-bit hashes, which no variable-length
//! code makes smaller, and a block of fixed size lets a reader check a count against what is left before it allocates
//! anything. Behind the header stand the ranks, and a checksum (XXH3-128) over all of it ends the file, so that a file
//! that was cut short or damaged anywhere is refused whole: half an index would be believed.
//!
//! ```text
//! "kvrindex"  version: u32  ranks: u64  rank…  checksum: u128
//! rank   model: text  worker: text  dp_rank: u32  last: 0 | 1 sequence: u64 content: u64
//!        block_size: u32 (0: none)  runs: u64  run…
//! run    tier: u8 (0 device, 1 host, 2 disk)  blocks: u64  (engine_key: u64 sequence: u64)…
//! text   bytes: u64  UTF-8
//! ```

mod decode;
mod encode;

use kvroute_core::{LastMessage, Tier};

use crate::RankExport;

/// How every snapshot begins.
const MAGIC: &[u8; 8] = b"kvrindex";

/// The one version that this build writes and reads. Any change of the format is another version.
const VERSION: u32 = 1;

/// Bytes of the checksum at the end.
const CHECKSUM: usize = size_of::<u128>();

/// What an index held, rank by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// One for each rank that was worth keeping.
    pub ranks: Vec<RankSnapshot>,
}

/// What one rank held, and how far its event stream had been applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSnapshot {
    /// The pool's model.
    pub model: String,
    /// The worker's name.
    pub worker: String,
    /// The rank inside the worker.
    pub dp_rank: u32,
    /// The last event message that is part of it; `None` where there was none.
    pub last: Option<LastMessage>,
    /// Its blocks.
    pub export: RankExport,
}

/// Why bytes are no snapshot that can be used. Nothing of it is used then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The file is of another kind, or empty.
    #[error("not a kvroute index snapshot")]
    NotASnapshot,
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
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
}

/// What stands for a tier in the file.
const fn tier_code(tier: Tier) -> u8 {
    tier.index() as u8
}

#[cfg(test)]
mod tests;
