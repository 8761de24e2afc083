//! Everything that is known of one rank.

use kvroute_core::{BlockHash, BlockSize, Blocks, PrefixHasher, RankSlot, SequenceHash, Tier};

use crate::Applied;
use crate::engine_key::{EngineBlock, EngineKey};
use crate::held::HeldBlocks;
use crate::holders::Holders;
use crate::orphans::Orphans;

/// One [`Holders`] a tier, in the order of [`Tier::ALL`].
pub(crate) type TierHolders = [Holders; Tier::ALL.len()];

/// One rank's blocks by the engine's names, and those that wait for their parent.
///
/// In a rank, an engine's name stands for one sequence, on whichever tiers; a waiting block's name, and its
/// parent's, stand for none.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankBlocks {
    block_size: Option<BlockSize>,
    tiers: [HeldBlocks; Tier::ALL.len()],
    orphans: Orphans,
}

// === impl RankBlocks ===

impl RankBlocks {
    /// The size of the rank's blocks, once an event showed it.
    pub(crate) const fn block_size(&self) -> Option<BlockSize> {
        self.block_size
    }

    /// Takes the size of a new event; false if it contradicts blocks that are known. An empty rank may change
    /// its size: that is what a restart with other flags looks like.
    pub(crate) fn accept_block_size(&mut self, size: BlockSize) -> bool {
        if self.block_size == Some(size) {
            return true;
        }
        let is_empty = self.orphans.is_empty() && self.tiers.iter().all(HeldBlocks::is_empty);
        if is_empty {
            self.block_size = Some(size);
        }
        is_empty
    }

    /// Distinct blocks held on a tier.
    pub(crate) fn held(&self, tier: Tier) -> Blocks {
        self.tiers[tier.index()].distinct()
    }

    /// Blocks that wait for their parent.
    pub(crate) fn waiting(&self) -> Blocks {
        self.orphans.len()
    }

    /// The sequence that an engine's name stands for, whichever tier holds it.
    pub(crate) fn sequence_of(&self, key: EngineKey) -> Option<SequenceHash> {
        self.tiers.iter().find_map(|held| held.get(key))
    }

    /// Stores a block whose sequence is known, and every waiting block that this makes known.
    pub(crate) fn store(
        &mut self,
        slot: RankSlot,
        block: EngineBlock,
        sequence: SequenceHash,
        holders: &mut TierHolders,
        applied: &mut Applied,
    ) {
        self.store_one(slot, block, sequence, holders, applied);
        if self.orphans.is_empty() {
            return;
        }
        self.orphans.remove(block);
        let mut known = vec![(block.key, sequence)];
        while let Some((key, meaning)) = known.pop() {
            for same_name in Tier::ALL.map(|tier| EngineBlock { tier, key }) {
                if self.orphans.remove(same_name) {
                    self.store_one(slot, same_name, meaning, holders, applied);
                }
            }
            for (child, content) in self.orphans.take_children(key) {
                let child_meaning = PrefixHasher::after(meaning).push(content);
                self.store_one(slot, child, child_meaning, holders, applied);
                known.push((child.key, child_meaning));
            }
        }
    }

    /// Sets a block aside until its parent arrives; beyond `limit` the oldest ones are forgotten.
    pub(crate) fn set_aside(
        &mut self,
        block: EngineBlock,
        parent: EngineKey,
        content: BlockHash,
        limit: usize,
        applied: &mut Applied,
    ) {
        if !self.orphans.insert(block, parent, content) {
            applied.duplicate += 1;
            return;
        }
        applied.orphaned += 1;
        applied.dropped += self.orphans.limit_to(limit);
    }

    /// Takes one copy off a tier.
    pub(crate) fn remove(
        &mut self,
        slot: RankSlot,
        block: EngineBlock,
        holders: &mut TierHolders,
        applied: &mut Applied,
    ) {
        let tier = block.tier.index();
        let is_known =
            self.tiers[tier].remove(block.key, slot, &mut holders[tier]) || self.orphans.remove(block);
        if is_known {
            applied.removed += 1;
        } else {
            applied.unknown += 1;
        }
    }

    /// Forgets every block; the block size stays. Returns the number of copies that were held.
    pub(crate) fn clear(&mut self, slot: RankSlot, holders: &mut TierHolders) -> Blocks {
        self.orphans = Orphans::default();
        let tiers = self.tiers.iter_mut().zip(holders);
        tiers.map(|(held, tier_holders)| held.clear(slot, tier_holders)).sum()
    }

    fn store_one(
        &mut self,
        slot: RankSlot,
        block: EngineBlock,
        sequence: SequenceHash,
        holders: &mut TierHolders,
        applied: &mut Applied,
    ) {
        if self.sequence_of(block.key).is_some_and(|meaning| meaning != sequence) {
            self.forget_name(slot, block.key, holders);
            applied.conflicting += 1;
        }
        let tier = block.tier.index();
        if self.tiers[tier].get(block.key).is_some() {
            applied.duplicate += 1;
            return;
        }
        self.tiers[tier].insert(block.key, sequence, slot, &mut holders[tier]);
        applied.stored += 1;
    }

    fn forget_name(&mut self, slot: RankSlot, key: EngineKey, holders: &mut TierHolders) {
        for (held, tier_holders) in self.tiers.iter_mut().zip(holders) {
            held.remove(key, slot, tier_holders);
        }
    }
}
