//! What a pool knows of its workers' caches.
//!
//! One index answers for all ranks, whatever told it: KV events, or the router's own memory of what it placed. What
//! leaves the index is buried with its cause, so that a loss that shows later can be given its reason.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kvroute_core::{KvEvent, RankSlot, Removal, RemovalCause, SequenceHash};
use kvroute_index::{Applied, IndexOptions, RankExport, ReportedIndex, Tombstones};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// Share of the byte budget that tombstones take, as a divisor, and their most.
const TOMBSTONE_SHARE: usize = 32;
const MOST_TOMBSTONE_BYTES: usize = 16 << 20;

/// The index of one pool and the memory of what left it.
#[derive(Debug)]
pub(crate) struct Knowledge {
    index: ReportedIndex,
    tombstones: Mutex<Tombstones>,
    /// Blocks that the byte budget pushed out and that were not counted yet.
    pushed_out: AtomicU64,
    started: Instant,
}

// === impl Knowledge ===

impl Knowledge {
    /// Nothing is known yet. Index and tombstones together stay within `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let tombstone_bytes = (bytes / TOMBSTONE_SHARE).min(MOST_TOMBSTONE_BYTES);
        let options = IndexOptions { bytes: bytes - tombstone_bytes, ..IndexOptions::default() };
        Self {
            index: ReportedIndex::new(options),
            tombstones: Mutex::new(Tombstones::new(tombstone_bytes)),
            pushed_out: AtomicU64::new(0),
            started: Instant::now(),
        }
    }

    /// The index, to be asked. It is changed through this type only, so that nothing leaves it unseen.
    pub(crate) const fn index(&self) -> &ReportedIndex {
        &self.index
    }

    /// Blocks that the byte budget pushed out since the last call.
    pub(crate) fn take_pushed_out(&self) -> u64 {
        self.pushed_out.swap(0, Ordering::Relaxed)
    }

    /// The pool's time, as every state machine of it is told.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Applies events of one rank, in order.
    pub(crate) fn apply(&self, slot: RankSlot, events: &[KvEvent]) -> Applied {
        self.change(|index, mut gone| {
            let mut applied = Applied::default();
            for event in events {
                applied += index.apply(slot, event, &mut gone);
            }
            applied
        })
    }

    /// Forgets what a rank holds, because its event stream lost track.
    pub(crate) fn clear(&self, slot: RankSlot) {
        self.change(|index, mut gone| index.clear(slot, RemovalCause::Cleared, &mut gone));
    }

    /// Forgets a rank that left. Its slot may serve another one afterwards.
    pub(crate) fn remove(&self, slot: RankSlot) {
        self.change(|index, mut gone| index.remove_rank(slot, &mut gone));
        self.tombstones.lock().vacate(slot);
    }

    /// Takes back what a snapshot kept of a rank.
    pub(crate) fn restore(&self, slot: RankSlot, export: &RankExport) -> Applied {
        self.change(|index, mut gone| index.import(slot, export, &mut gone))
    }

    /// What is remembered of blocks that left, locked against further burials.
    pub(crate) fn tombstones(&self) -> MutexGuard<'_, Tombstones> {
        self.tombstones.lock()
    }

    /// Whether any of these blocks left the rank at or after a time.
    pub(crate) fn lost_any(&self, slot: RankSlot, blocks: &[SequenceHash], since: Duration) -> bool {
        let tombstones = self.tombstones.lock();
        let left = |sequence: &SequenceHash| tombstones.newest(*sequence, |holder| holder == Some(slot));
        blocks.iter().filter_map(left).any(|tombstone| tombstone.at >= since)
    }

    /// Runs a change that may push blocks out. The index tells of a block once it is gone for every lookup, so the time
    /// of its burial is not before any promise that still counted on it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&ReportedIndex, &mut dyn FnMut(Removal)) -> T) -> T {
        change(&self.index, &mut |removal| self.bury(removal))
    }

    fn bury(&self, removal: Removal) {
        if removal.cause == RemovalCause::IndexBudget {
            self.pushed_out.fetch_add(1, Ordering::Relaxed);
        }
        self.tombstones.lock().bury(removal, self.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long batch takes its time: what it removes at its end left after a promise that was made in its middle.
    #[test]
    fn a_block_that_left_after_a_promise_was_dated_to_the_start_of_its_batch() {
        let knowledge = Knowledge::new(64 << 20);
        let (slot, sequence) = (RankSlot::new(0), SequenceHash::from_raw(7));
        let promised = knowledge.change(|_, gone| {
            std::thread::sleep(Duration::from_millis(2));
            let promised = knowledge.now();
            gone(Removal { slot, sequence, cause: RemovalCause::Evicted });
            promised
        });
        assert!(knowledge.lost_any(slot, &[sequence], promised));
        assert!(!knowledge.lost_any(slot, &[sequence], knowledge.now() + Duration::from_millis(1)));
    }
}
