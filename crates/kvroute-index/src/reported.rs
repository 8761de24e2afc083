//! The exact index of reported blocks.
//!
//! A block's sequence follows from its parent's and its own tokens, so every event is understood with what
//! its rank said before. Holes stay exact because each block is held by itself: taking one out of the middle
//! shortens the prefix there, and the blocks behind count again once it returns.

use kvroute_core::{
    BlockHash, BlockSize, Blocks, EngineHash, KvEvent, Namespace, PrefixHasher, PromptBlocks, RankSlot,
    SequenceHash, StoredBlocks, Tier,
};

use crate::engine_key::{EngineBlock, EngineKey};
use crate::rank::{RankBlocks, TierHolders};
use crate::slot_set::SlotBits;
use crate::{Applied, CachedPrefix, lookup};

/// What the ranks of one pool hold, by their own events.
#[derive(Clone, Debug)]
pub struct ReportedIndex {
    ranks: Vec<RankBlocks>,
    holders: TierHolders,
    orphan_limit: usize,
}

/// What stands before the next block of an event.
#[derive(Clone, Copy)]
enum Parent {
    /// The root of a namespace, or a block whose sequence is known.
    Known(PrefixHasher),
    /// A block that was never reported, or left since.
    Unknown(EngineKey),
}

// === impl ReportedIndex ===

impl ReportedIndex {
    /// Blocks without a parent that a rank may set aside: 65,536 tokens at 16 a block, in less than a megabyte.
    pub const ORPHAN_LIMIT: usize = 4096;

    /// An empty index.
    pub fn new() -> Self {
        Self::with_orphan_limit(Self::ORPHAN_LIMIT)
    }

    /// An empty index whose ranks each set aside at most so many blocks without a parent.
    pub fn with_orphan_limit(orphan_limit: usize) -> Self {
        Self { ranks: Vec::new(), holders: TierHolders::default(), orphan_limit }
    }

    /// Applies one event of a rank. Events of one rank come in the order in which its engine sent them.
    pub fn apply(&mut self, slot: RankSlot, event: &KvEvent) -> Applied {
        match event {
            KvEvent::Stored(stored) => self.store(slot, stored),
            KvEvent::Removed { hashes, tier } => self.remove(slot, hashes, *tier),
            KvEvent::Moved { .. } => Applied { unknown: 1, ..Applied::default() },
            KvEvent::Cleared => Applied { removed: self.clear(slot).get(), ..Applied::default() },
        }
    }

    /// Forgets every block of a rank, orphans included; keeps its block size. Returns the copies it held.
    pub fn clear(&mut self, slot: RankSlot) -> Blocks {
        match self.ranks.get_mut(slot.index()) {
            Some(rank) => rank.clear(slot, &mut self.holders),
            None => Blocks::ZERO,
        }
    }

    /// Forgets a rank and frees what it owned. Its slot may serve another rank afterwards.
    pub fn remove_rank(&mut self, slot: RankSlot) {
        if let Some(rank) = self.ranks.get_mut(slot.index()) {
            rank.clear(slot, &mut self.holders);
            *rank = RankBlocks::default();
        }
    }

    /// Distinct blocks that a rank holds on its device.
    pub fn blocks(&self, slot: RankSlot) -> Blocks {
        self.rank(slot).map_or(Blocks::ZERO, |rank| rank.held(Tier::Device))
    }

    /// Blocks of a rank that wait for their parent.
    pub fn orphans(&self, slot: RankSlot) -> Blocks {
        self.rank(slot).map_or(Blocks::ZERO, RankBlocks::waiting)
    }

    /// Block size that a rank's events showed; `None` before the first one.
    pub fn block_size(&self, slot: RankSlot) -> Option<BlockSize> {
        self.rank(slot).and_then(RankBlocks::block_size)
    }

    /// Replaces `out` by the cached prefix of `prompt` on each of `slots`, in their order.
    ///
    /// A rank whose blocks have another size than the prompt's gets nothing: ask once a distinct size.
    pub fn cached_prefixes(&self, prompt: &PromptBlocks, slots: &[RankSlot], out: &mut Vec<CachedPrefix>) {
        let mut comparable = SlotBits::default();
        for slot in slots {
            if self.block_size(*slot) == Some(prompt.block_size()) {
                comparable.insert(*slot);
            }
        }
        lookup::cached_prefixes(&self.holders, prompt.hashes(), slots, &comparable, out);
    }

    fn store(&mut self, slot: RankSlot, event: &StoredBlocks) -> Applied {
        let block_tokens = event.block_size.get() as usize;
        let is_complete = event.hashes.len().checked_mul(block_tokens) == Some(event.tokens.len());
        self.make_room_for(slot);
        let rank = &mut self.ranks[slot.index()];
        if !is_complete || !rank.accept_block_size(event.block_size) {
            return Applied { rejected: 1, ..Applied::default() };
        }
        let mut applied = Applied::default();
        let mut parent = Parent::of(event, rank);
        for (hash, tokens) in event.hashes.iter().zip(event.tokens.chunks_exact(block_tokens)) {
            let block = EngineBlock { tier: event.tier, key: EngineKey::from(hash) };
            let content = BlockHash::of(tokens);
            parent = match parent.child(block.key, content, rank) {
                Ok(sequence) => {
                    rank.store(slot, block, sequence, &mut self.holders, &mut applied);
                    Parent::Known(PrefixHasher::after(sequence))
                }
                Err(unknown) => {
                    rank.set_aside(block, unknown, content, self.orphan_limit, &mut applied);
                    Parent::Unknown(block.key)
                }
            };
        }
        applied
    }

    fn remove(&mut self, slot: RankSlot, hashes: &[EngineHash], tier: Tier) -> Applied {
        let mut applied = Applied::default();
        let Some(rank) = self.ranks.get_mut(slot.index()) else {
            applied.unknown = hashes.len() as u64;
            return applied;
        };
        for hash in hashes {
            let block = EngineBlock { tier, key: EngineKey::from(hash) };
            rank.remove(slot, block, &mut self.holders, &mut applied);
        }
        applied
    }

    fn rank(&self, slot: RankSlot) -> Option<&RankBlocks> {
        self.ranks.get(slot.index())
    }

    fn make_room_for(&mut self, slot: RankSlot) {
        if slot.index() >= self.ranks.len() {
            self.ranks.resize_with(slot.index() + 1, RankBlocks::default);
        }
    }
}

impl Default for ReportedIndex {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Parent ===

impl Parent {
    /// The parent of an event's first block: only at the root do salt and adapter count, since every further
    /// block inherits them through the chain.
    fn of(event: &StoredBlocks, rank: &RankBlocks) -> Self {
        let Some(hash) = &event.parent else {
            let namespace = Namespace::new(event.salt.as_deref(), event.adapter.as_deref());
            return Self::Known(PrefixHasher::root(namespace));
        };
        let key = EngineKey::from(hash);
        match rank.sequence_of(key) {
            Some(sequence) => Self::Known(PrefixHasher::after(sequence)),
            None => Self::Unknown(key),
        }
    }

    /// The sequence of the next block, or the parent that must be known first. A block that the rank holds
    /// already needs no parent to be understood.
    fn child(self, key: EngineKey, content: BlockHash, rank: &RankBlocks) -> Result<SequenceHash, EngineKey> {
        match self {
            Self::Known(mut hasher) => Ok(hasher.push(content)),
            Self::Unknown(parent) => rank.sequence_of(key).ok_or(parent),
        }
    }
}

#[cfg(test)]
mod tests;
