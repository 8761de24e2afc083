//! Engines whose caches fill and turn over, oldest chain first, each chain from its end on.
//!
//! A chain is told by its number: names and tokens follow from it, so that ten million blocks cost the engines nothing
//! and what the process occupies is the index.

use std::collections::VecDeque;

use kvroute_core::{BlockExtras, BlockSize, EngineHash, KvEvent, RankSlot, Removal, StoredBlocks, Tier};
use kvroute_index::{Applied, ReportedIndex};

use crate::random::{OneIn, Random, mix};

const BLOCK_SIZE: BlockSize = BlockSize::DEFAULT;
const LONGEST_CHAIN: usize = 96;
/// Chains that a second rank holds as well.
const SHARED: OneIn = OneIn(4);
/// Chains that grow by single blocks afterwards, as an answer does.
const GROWING: OneIn = OneIn(2);
const LONGEST_ANSWER: usize = 16;
/// Chains after which an engine loses its whole cache.
const CLEARED: OneIn = OneIn(30_000);
/// Of those, the engines that leave and come back instead of telling it.
const LEAVING: OneIn = OneIn(2);

/// The engines.
#[derive(Debug)]
pub(super) struct Fleet {
    engines: Vec<Engine>,
    random: Random,
    next_chain: u64,
    stored: usize,
}

#[derive(Debug)]
struct Engine {
    slot: RankSlot,
    chains: VecDeque<Chain>,
    held: usize,
    capacity: usize,
}

#[derive(Clone, Copy, Debug)]
struct Chain {
    number: u64,
    blocks: usize,
}

// === impl Fleet ===

impl Fleet {
    pub(super) fn new(engines: usize, capacity: usize, seed: u64) -> Self {
        let engine = |slot| Engine { slot: RankSlot::new(slot), chains: VecDeque::new(), held: 0, capacity };
        let engines = (0..engines as u32).map(engine).collect();
        Self { engines, random: Random::new(seed), next_chain: 0, stored: 0 }
    }

    /// Blocks stored so far, each engine's copy counted.
    pub(super) const fn stored(&self) -> usize {
        self.stored
    }

    /// Blocks in the engines' caches.
    pub(super) fn held(&self) -> usize {
        self.engines.iter().map(|engine| engine.held).sum()
    }

    /// The same as the index sees it.
    pub(super) fn held_by(&self, index: &ReportedIndex) -> usize {
        self.engines.iter().map(|engine| index.blocks(engine.slot).get() as usize).sum()
    }

    /// Every cache holds so many times more from now on.
    pub(super) fn enlarge(&mut self, times: usize) {
        self.engines.iter_mut().for_each(|engine| engine.capacity *= times);
    }

    /// Every engine leaves.
    pub(super) fn leave(&mut self, index: &ReportedIndex) {
        for engine in &mut self.engines {
            index.remove_rank(engine.slot, &mut |_: Removal| ());
            engine.forget();
        }
    }

    /// One engine computes one chain; another one may compute it as well.
    pub(super) fn step(&mut self, index: &ReportedIndex) -> Applied {
        let chain = Chain { number: self.next_chain, blocks: 1 + self.random.below(LONGEST_CHAIN) };
        self.next_chain += 1;
        let mut applied = self.compute(index, chain);
        if self.random.is(SHARED) {
            applied += self.compute(index, chain);
        }
        applied
    }

    fn compute(&mut self, index: &ReportedIndex, chain: Chain) -> Applied {
        let number = self.random.below(self.engines.len());
        let engine = &mut self.engines[number];
        if self.random.is(CLEARED) {
            if self.random.is(LEAVING) {
                index.remove_rank(engine.slot, &mut |_: Removal| ());
            } else {
                let _ = index.apply(engine.slot, &KvEvent::Cleared, &mut |_: Removal| ());
            }
            engine.forget();
        }
        if engine.chains.iter().rev().take(64).any(|held| held.number == chain.number) {
            return Applied::default();
        }
        let answer = if self.random.is(GROWING) { self.random.below(LONGEST_ANSWER) } else { 0 };
        let mut applied = engine.make_room(index, chain.blocks + answer);
        applied += engine.store(index, chain, 0..chain.blocks);
        for block in chain.blocks..chain.blocks + answer {
            applied += engine.store(index, chain, block..block + 1);
        }
        engine.chains.push_back(Chain { blocks: chain.blocks + answer, ..chain });
        engine.held += chain.blocks + answer;
        self.stored += chain.blocks + answer;
        applied
    }
}

// === impl Engine ===

impl Engine {
    fn forget(&mut self) {
        self.chains.clear();
        self.held = 0;
    }

    fn make_room(&mut self, index: &ReportedIndex, blocks: usize) -> Applied {
        let mut applied = Applied::default();
        while self.held + blocks > self.capacity {
            let Some(oldest) = self.chains.pop_front() else { break };
            let hashes = (0..oldest.blocks).rev().map(|block| oldest.name(block)).collect();
            let event = KvEvent::Removed { hashes, tier: Tier::Device };
            applied += index.apply(self.slot, &event, &mut |_: Removal| ());
            self.held -= oldest.blocks;
        }
        applied
    }

    fn store(&self, index: &ReportedIndex, chain: Chain, blocks: std::ops::Range<usize>) -> Applied {
        let event = KvEvent::Stored(StoredBlocks {
            parent: blocks.start.checked_sub(1).map(|last| chain.name(last)),
            tokens: blocks.clone().flat_map(|block| chain.tokens(block)).collect(),
            hashes: blocks.map(|block| chain.name(block)).collect(),
            block_size: BLOCK_SIZE,
            tier: Tier::Device,
            salt: None,
            adapter: None,
            extras: BlockExtras::default(),
        });
        index.apply(self.slot, &event, &mut |_: Removal| ())
    }
}

// === impl Chain ===

impl Chain {
    fn name(self, block: usize) -> EngineHash {
        EngineHash::Int(mix((self.number << 8) + block as u64))
    }

    /// Windows that move over all bits of the block's content, so that no two blocks are the same.
    fn tokens(self, block: usize) -> impl Iterator<Item = u32> {
        let content = mix(!((self.number << 8) + block as u64));
        (0..BLOCK_SIZE.get()).map(move |token| (content.rotate_left(4 * token) & 0x1_FFFF) as u32)
    }
}
