//! Blocks that placed prompts are about to bring: for placement only, never part of what is cached.
//!
//! Between its placement and its first token a prompt is in no cache, and an index that knows caches alone would send
//! every equal prompt of a burst to another rank, each to compute the same. So the blocks of unfinished prompts are
//! kept here, by rank and counted by prompt: a block is expected as long as one of the prompts that hold it is not
//! done. Whole chains are placed, from the first block on, so a block that is expected has all blocks before it
//! expected too, and a lookup may begin wherever the cached prefix ended. What a chain brings is gone with its last
//! prompt, and so is the memory: it is bounded by the prompts in flight.

use std::collections::HashMap;

use kvroute_core::{AttemptId, Blocks, PrehashedMap, RankSlot, SequenceHash};

/// Room of a map that is worth giving back while others still use the map.
const WORTH_SHRINKING: usize = 1024;

/// Expected blocks of every rank of a pool, by attempt.
#[derive(Clone, Debug, Default)]
pub struct ExpectedBlocks {
    /// For each slot, how many unfinished prompts bring a block.
    ranks: Vec<PrehashedMap<SequenceHash, u32>>,
    attempts: HashMap<AttemptId, PlacedChains>,
}

/// What one attempt brings.
#[derive(Clone, Debug)]
struct PlacedChains {
    slot: RankSlot,
    /// The blocks of all its prompts; a block of two prompts stands here twice.
    blocks: Vec<SequenceHash>,
}

// === impl ExpectedBlocks ===

impl ExpectedBlocks {
    /// Nothing is expected.
    pub fn new() -> Self {
        Self::default()
    }

    /// A prompt of an attempt was placed on a rank: its complete blocks, from the first to the last, are expected
    /// there. An attempt with several prompts places each of them. An attempt is on one rank: placing it on another
    /// one ends what it placed before.
    pub fn place(&mut self, attempt: AttemptId, slot: RankSlot, hashes: &[SequenceHash]) {
        if hashes.is_empty() {
            return;
        }
        if self.attempts.get(&attempt).is_some_and(|placed| placed.slot != slot) {
            self.done(attempt);
        }
        if slot.index() >= self.ranks.len() {
            self.ranks.resize_with(slot.index() + 1, PrehashedMap::default);
        }
        let counts = &mut self.ranks[slot.index()];
        for hash in hashes {
            *counts.entry(*hash).or_default() += 1;
        }
        let placed = self.attempts.entry(attempt);
        placed.or_insert_with(|| PlacedChains { slot, blocks: Vec::new() }).blocks.extend_from_slice(hashes);
    }

    /// The attempt's prompts are computed, or never will be. Later calls change nothing.
    pub fn done(&mut self, attempt: AttemptId) {
        let Some(PlacedChains { slot, blocks }) = self.attempts.remove(&attempt) else { return };
        if self.attempts.is_empty() {
            self.attempts = HashMap::new();
        }
        let counts = &mut self.ranks[slot.index()];
        for hash in &blocks {
            release(counts, *hash);
        }
        give_back(counts);
    }

    /// Forgets a rank with its attempts. Their later `done` is harmless, also when the slot is in use again.
    pub fn remove_slot(&mut self, slot: RankSlot) {
        self.attempts.retain(|_, placed| placed.slot != slot);
        if let Some(counts) = self.ranks.get_mut(slot.index()) {
            *counts = PrehashedMap::default();
        }
    }

    /// Blocks of a prompt from position `cached` on that are expected on the rank, without a hole. Without any, this
    /// costs one look into a table; with some, a few.
    pub fn prefix_after(&self, slot: RankSlot, hashes: &[SequenceHash], cached: Blocks) -> Blocks {
        let Some(counts) = self.ranks.get(slot.index()).filter(|counts| !counts.is_empty()) else {
            return Blocks::ZERO;
        };
        let start = usize::try_from(cached.get()).unwrap_or(usize::MAX).min(hashes.len());
        match &hashes[start..] {
            [first, behind @ ..] if counts.contains_key(first) => {
                let expected = behind.partition_point(|hash| counts.contains_key(hash));
                Blocks::from(1 + expected)
            }
            _ => Blocks::ZERO,
        }
    }

    /// True if nothing is expected on the rank.
    pub fn is_idle(&self, slot: RankSlot) -> bool {
        self.ranks.get(slot.index()).is_none_or(PrehashedMap::is_empty)
    }
}

fn release(counts: &mut PrehashedMap<SequenceHash, u32>, hash: SequenceHash) {
    let Some(prompts) = counts.get_mut(&hash) else { return };
    *prompts -= 1;
    if *prompts == 0 {
        counts.remove(&hash);
    }
}

/// A rank at rest keeps nothing; a busy one at most four times what it needs.
fn give_back(counts: &mut PrehashedMap<SequenceHash, u32>) {
    if counts.is_empty() {
        *counts = PrehashedMap::default();
    } else if counts.capacity() > WORTH_SHRINKING && counts.len() < counts.capacity() / 4 {
        counts.shrink_to(2 * counts.len());
    }
}

#[cfg(test)]
mod tests;
