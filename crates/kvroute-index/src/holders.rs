//! Which ranks hold a block on one tier: the half of the index that lookups read.

use kvroute_core::{PrehashedMap, RankSlot, SequenceHash};

use crate::slot_set::SlotSet;

/// Ranks by sequence hash, for one tier of all ranks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holders {
    by_sequence: PrehashedMap<SequenceHash, SlotSet>,
}

// === impl Holders ===

impl Holders {
    /// The ranks that hold a block.
    pub(crate) fn get(&self, sequence: SequenceHash) -> Option<&SlotSet> {
        self.by_sequence.get(&sequence)
    }

    /// True if no rank holds anything on this tier.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_sequence.is_empty()
    }

    /// Notes that a rank holds a block; false if that was known.
    pub(crate) fn insert(&mut self, sequence: SequenceHash, slot: RankSlot) -> bool {
        let mut is_new = false;
        let set = self.by_sequence.entry(sequence).or_insert_with(|| {
            is_new = true;
            SlotSet::One(slot)
        });
        is_new || set.insert(slot)
    }

    /// Notes that a rank no longer holds a block.
    pub(crate) fn remove(&mut self, sequence: SequenceHash, slot: RankSlot) {
        let Some(set) = self.by_sequence.get_mut(&sequence) else { return };
        if set.remove(slot) {
            self.by_sequence.remove(&sequence);
        }
    }

    /// Gives memory back after many removals. Rebuilding costs as much as what is left, so it waits until
    /// that is less than what left.
    pub(crate) fn shrink(&mut self) {
        let len = self.by_sequence.len();
        if len < self.by_sequence.capacity() / 4 {
            self.by_sequence.shrink_to(2 * len);
        }
    }

    /// Room for so many blocks is allocated.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.by_sequence.capacity()
    }
}
