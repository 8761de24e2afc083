//! Which worker rank holds which prefix, exactly as the engines report it.
//!
//! One index serves one pool. It is a pure state machine: events go in, cached prefixes come out; no clock,
//! no thread, no socket. Any thread may use it: changes come one at a time, lookups take no lock and wait for none. Identity is the chained sequence hash of the tokens, never the engine's own hash:
//! that is only the key by which an engine's later removals and parent links are understood.

#![forbid(unsafe_code)]

mod applied;
mod board;
mod cells;
mod change;
mod engine_key;
mod event;
mod export;
mod heads;
mod holder;
#[cfg(all(test, loom))]
mod interleavings;
mod lineage;
mod lookup;
mod lookup_anywhere;
mod lookup_tiers;
mod names;
mod orphans;
mod pages;
mod prefix;
mod prefixes;
mod rank;
mod remembered;
mod reported;
mod run;
mod segments;
mod sets;
mod shelf;
mod snapshot;
mod store;
mod storing;
mod sync;
mod tombstones;
mod transfer;
mod writer;

pub use applied::Applied;
pub use export::{ExportedBlock, ExportedRun, RankExport};
pub use kvroute_core::RankSlot;
pub use prefix::CachedPrefix;
pub use prefixes::Prefixes;
pub use remembered::{Correction, RememberPolicy, RememberedCounts, RememberedRank, ReportedReuse};
pub use reported::{IndexOptions, ReportedIndex};
pub use snapshot::{RankSnapshot, Snapshot, SnapshotError};
pub use tombstones::{Tombstone, Tombstones};
