//! What one rank holds on one tier, by the engine's names.
//!
//! The engine may keep one content twice under two names (cache groups, two forms of a salt, a block computed
//! again): these are two copies, and removing one must not lose the block. The same name stored again is the
//! same copy, so a name counts once. Second copies are rare; they are counted beside, so that the common case
//! is one table entry.

use kvroute_core::{Blocks, PrehashedMap, RankSlot, SequenceHash};

use crate::engine_key::EngineKey;
use crate::holders::Holders;

/// The blocks of one (rank, tier).
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBlocks {
    by_engine: PrehashedMap<EngineKey, SequenceHash>,
    further_copies: PrehashedMap<SequenceHash, u32>,
    further_total: usize,
}

// === impl HeldBlocks ===

impl HeldBlocks {
    /// The sequence that an engine's name stands for.
    pub(crate) fn get(&self, key: EngineKey) -> Option<SequenceHash> {
        self.by_engine.get(&key).copied()
    }

    /// Adds a copy under a name that is not in use here.
    pub(crate) fn insert(
        &mut self,
        key: EngineKey,
        sequence: SequenceHash,
        slot: RankSlot,
        holders: &mut Holders,
    ) {
        let replaced = self.by_engine.insert(key, sequence);
        debug_assert!(replaced.is_none(), "a name stands for one copy");
        if !holders.insert(sequence, slot) {
            *self.further_copies.entry(sequence).or_default() += 1;
            self.further_total += 1;
        }
    }

    /// Takes the copy of that name away; false if there is none.
    pub(crate) fn remove(&mut self, key: EngineKey, slot: RankSlot, holders: &mut Holders) -> bool {
        let Some(sequence) = self.by_engine.remove(&key) else { return false };
        if !self.remove_further_copy(sequence) {
            holders.remove(sequence, slot);
        }
        true
    }

    /// Takes everything away. Returns the number of copies.
    pub(crate) fn clear(&mut self, slot: RankSlot, holders: &mut Holders) -> Blocks {
        let cleared = std::mem::take(self);
        for sequence in cleared.by_engine.values() {
            holders.remove(*sequence, slot);
        }
        holders.shrink();
        Blocks::from(cleared.by_engine.len())
    }

    /// Blocks held, whatever the number of their copies.
    pub(crate) fn distinct(&self) -> Blocks {
        Blocks::from(self.by_engine.len() - self.further_total)
    }

    /// True if nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_engine.is_empty()
    }

    fn remove_further_copy(&mut self, sequence: SequenceHash) -> bool {
        let Some(copies) = self.further_copies.get_mut(&sequence) else { return false };
        *copies -= 1;
        self.further_total -= 1;
        if *copies == 0 {
            self.further_copies.remove(&sequence);
        }
        true
    }
}
