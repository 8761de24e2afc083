//! Which prefixes were ever computed: a bounded set of sequence hashes, first in, first out.
//!
//! It answers whether a prefix was ever computed, not whether it is still held anywhere: nothing but its own bound makes it
//! forget. A pure state machine: no clock, no thread, no socket. Any thread may use it; lookups take no lock.

#![forbid(unsafe_code)]

mod ages;
mod cells;
mod dimensions;
mod domain;
mod export;
mod history;
mod index;
#[cfg(all(test, loom))]
mod interleavings;
mod line;
mod placement;
mod queue;
mod snapshot;
mod sync;
mod tail;

pub use ages::{AgeMark, Ages};
pub use domain::Domain;
pub use export::ExportCursor;
pub use history::History;
pub use snapshot::{Restored, Section, SnapshotError, read_snapshot, read_snapshot_while, write_snapshot};
pub use tail::OutputTail;
