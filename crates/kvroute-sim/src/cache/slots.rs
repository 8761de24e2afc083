//! llama.cpp's cache: one sequence of tokens in each of a few slots.
//!
//! A prompt takes the idle slot whose tokens begin most like it, if that is worth anything, else the one that was idle
//! longest, and reuses what both begin with, to the token, save the last one of the prompt. What one slot holds is of no
//! use to another. There are no blocks and no events.

use kvroute_core::{BlockSize, TokenId};

use super::Chain;

/// A slot is taken for its tokens when so much of the prompt, in hundredths, begins like them.
const LEAST_LIKENESS_PERCENT: usize = 10;

/// The slots of one engine.
#[derive(Debug)]
pub(crate) struct SlotCache {
    slots: Vec<Slot>,
    /// Tokens that fit a slot.
    context: usize,
    block_size: usize,
    now: u64,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Tokens whose KV it holds, while it is idle.
    tokens: Vec<TokenId>,
    /// Tokens of the sequence in it.
    held: usize,
    is_busy: bool,
    used_at: u64,
}

// === impl SlotCache ===

impl SlotCache {
    /// Empty slots of so many tokens each. Usage is told in blocks of a size.
    pub(crate) fn new(slots: u32, context: usize, block_size: BlockSize) -> Self {
        let slots = vec![Slot::default(); slots as usize];
        Self { slots, context, block_size: block_size.get() as usize, now: 0 }
    }

    /// Puts a sequence into a slot. Returns the tokens that need no computing, or `None` when no slot is idle that it
    /// may take.
    pub(super) fn admit(&mut self, chain: &mut Chain) -> Option<usize> {
        let index = self.choose(chain)?;
        let slot = &mut self.slots[index];
        let alike = common_prefix(&slot.tokens, &chain.tokens).min(chain.tokens.len().saturating_sub(1));
        let reused = if chain.cache_use.is_anew { 0 } else { alike };
        slot.tokens.truncate(reused);
        (slot.is_busy, slot.held) = (true, chain.tokens.len());
        (chain.slot, chain.stored) = (Some(index), reused);
        Some(reused)
    }

    /// Whether the newest token of a sequence fits its slot.
    pub(super) fn extend(&mut self, chain: &Chain) -> bool {
        if let Some(index) = chain.slot {
            self.slots[index].held = chain.tokens.len();
        }
        chain.tokens.len() <= self.context
    }

    /// The slot keeps what was computed of the sequence.
    pub(super) fn release(&mut self, chain: &mut Chain) {
        let Some(index) = chain.slot.take() else { return };
        self.now += 1;
        let tokens = chain.tokens[..chain.stored].to_vec();
        self.slots[index] = Slot { tokens, held: 0, is_busy: false, used_at: self.now };
        chain.stored = 0;
    }

    /// Empties every slot; refused (false) while one is busy.
    pub(super) fn clear(&mut self) -> bool {
        if self.slots.iter().any(|slot| slot.is_busy) {
            return false;
        }
        self.slots.fill(Slot::default());
        true
    }

    /// Blocks' worth of tokens of sequences.
    pub(super) fn held_blocks(&self) -> usize {
        self.slots.iter().map(|slot| slot.held.div_ceil(self.block_size)).sum()
    }

    /// Blocks' worth of tokens altogether.
    pub(super) fn used_blocks(&self) -> usize {
        let tokens = self.slots.iter().map(|slot| slot.held.max(slot.tokens.len()));
        tokens.map(|tokens| tokens.div_ceil(self.block_size)).sum()
    }

    /// Tokens that each slot holds, and whether a sequence is in it.
    pub(crate) fn occupancy(&self) -> Vec<(usize, bool)> {
        self.slots.iter().map(|slot| (slot.held.max(slot.tokens.len()), slot.is_busy)).collect()
    }

    fn choose(&self, chain: &Chain) -> Option<usize> {
        let wished = chain.cache_use.slot.map(|slot| slot as usize).filter(|slot| *slot < self.slots.len());
        if let Some(index) = wished {
            return (!self.slots[index].is_busy).then_some(index);
        }
        let idle = || (0..self.slots.len()).filter(|index| !self.slots[*index].is_busy);
        let alike = |index: &usize| common_prefix(&self.slots[*index].tokens, &chain.tokens);
        let best = idle().max_by_key(|index| (alike(index), std::cmp::Reverse(*index)));
        let least = chain.tokens.len() * LEAST_LIKENESS_PERCENT / 100;
        best.filter(|index| alike(index) > least)
            .or_else(|| idle().min_by_key(|index| self.slots[*index].used_at))
    }
}

fn common_prefix(left: &[TokenId], right: &[TokenId]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheUse;

    fn cache() -> SlotCache {
        SlotCache::new(2, 100, BlockSize::new(4).unwrap())
    }

    fn admitted(cache: &mut SlotCache, tokens: &[TokenId], cache_use: CacheUse) -> (Chain, Option<usize>) {
        let mut chain = Chain::new(tokens.to_vec(), cache_use);
        let reused = cache.admit(&mut chain);
        (chain, reused)
    }

    fn serve(cache: &mut SlotCache, tokens: &[TokenId], cache_use: CacheUse) -> Option<usize> {
        let (mut chain, reused) = admitted(cache, tokens, cache_use);
        chain.stored = tokens.len();
        cache.release(&mut chain);
        reused
    }

    #[test]
    fn all_but_the_last_token_is_reused_in_the_slot_that_begins_most_like_the_prompt() {
        let mut cache = cache();
        let (one, two): (Vec<_>, Vec<_>) = ((0..10).collect(), (50..60).collect());
        let reused = [&one, &two, &one, &two].map(|prompt| serve(&mut cache, prompt, CacheUse::default()));
        assert_eq!(reused, [Some(0), Some(0), Some(9), Some(9)]);
        assert_eq!(serve(&mut cache, &one[..5], CacheUse::default()), Some(4));
        // The slot holds five tokens now.
        assert_eq!(serve(&mut cache, &one, CacheUse::default()), Some(5));
    }

    #[test]
    fn a_slot_that_is_asked_for_knows_nothing_of_the_others() {
        let mut cache = cache();
        let prompt: Vec<_> = (0..10).collect();
        let wish = |slot| CacheUse { slot: Some(slot), ..CacheUse::default() };
        assert_eq!(serve(&mut cache, &prompt, wish(0)), Some(0));
        assert_eq!(serve(&mut cache, &prompt, wish(1)), Some(0));
        assert_eq!(serve(&mut cache, &prompt, wish(9)), Some(9));
        assert_eq!(serve(&mut cache, &prompt, CacheUse { is_anew: true, ..CacheUse::default() }), Some(0));
    }

    #[test]
    fn a_prompt_waits_for_an_idle_slot() {
        let mut cache = cache();
        let (mut first, _) = admitted(&mut cache, &[1], CacheUse::default());
        let (_second, _) = admitted(&mut cache, &[2], CacheUse::default());
        assert_eq!(admitted(&mut cache, &[3], CacheUse::default()).1, None);
        assert!(!cache.clear());
        cache.release(&mut first);
        assert_eq!(admitted(&mut cache, &[3], CacheUse::default()).1, Some(0));
    }

    #[test]
    fn what_was_not_computed_is_not_kept() {
        let mut cache = cache();
        let prompt: Vec<_> = (0..10).collect();
        let (mut chain, _) = admitted(&mut cache, &prompt, CacheUse::default());
        cache.release(&mut chain);
        assert_eq!(serve(&mut cache, &prompt, CacheUse::default()), Some(0));
    }
}
