//! Which worker rank holds which prefix, exactly as the engines report it.
//!
//! One index serves one pool. It is a pure state machine: events go in, cached prefixes come out; no clock,
//! no thread, no socket. Identity is the chained sequence hash of the tokens, never the engine's own hash:
//! that is only the key by which an engine's later removals and parent links are understood.

#![forbid(unsafe_code)]

mod applied;
mod engine_key;
mod held;
mod holders;
mod lookup;
mod orphans;
mod prefix;
mod rank;
mod reported;
mod slot_set;

pub use applied::Applied;
pub use kvroute_core::RankSlot;
pub use prefix::CachedPrefix;
pub use reported::ReportedIndex;
