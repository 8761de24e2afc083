//! The index of this project.

use kvroute_core::{BlockExtras, EngineHash, KvEvent, PromptBlocks, Removal, StoredBlocks, Tier};
use kvroute_index::{ExportedBlock, IndexOptions, Prefixes, RankSlot, ReportedIndex};

use super::contestant::Index;
use super::measure::{Busy, look_up_while_storing};
use super::workload::{BLOCK_SIZE, Block, Event, prompt_blocks, tokens};

/// As the router uses it: an event brings tokens, and hashing them is part of a store. The other indexes are given
/// hashes, so that their stores do less.
pub(crate) struct FromTokens(ReportedIndex);

/// The same index, given the hashes as well: what compares with the others.
pub(crate) struct FromHashes(pub(crate) ReportedIndex);

pub(crate) enum HashedEvent {
    Store(RankSlot, Option<u64>, Vec<ExportedBlock>),
    Remove(RankSlot, KvEvent),
}

// === impl FromTokens ===

impl Index for FromTokens {
    const NAME: &'static str = "kvroute, hashing";

    type Event = (RankSlot, KvEvent);
    type Query = PromptBlocks;
    type Writer = u64;
    type Answer = Prefixes;

    fn new(_workers: usize) -> Self {
        Self(ReportedIndex::new(IndexOptions::default()))
    }

    fn writer(&self) -> u64 {
        0
    }

    fn event(event: &Event) -> Self::Event {
        match event {
            Event::Store { worker, parent, blocks } => (RankSlot::new(*worker), stored(*parent, blocks)),
            Event::Remove { worker, names } => (RankSlot::new(*worker), removed(names)),
        }
    }

    fn query(contents: &[u64]) -> PromptBlocks {
        prompt_blocks(contents)
    }

    fn read(query: &PromptBlocks) -> u64 {
        read(query)
    }

    fn apply(&self, gone: &mut u64, (slot, event): Self::Event) {
        let _ = self.0.apply(slot, &event, &mut |_: Removal| *gone += 1);
    }

    fn find(&self, query: &PromptBlocks, answer: &mut Prefixes) {
        self.0.cached_prefixes(query, answer);
    }

    fn each_prefix(answer: &Prefixes, workers: usize, tell: impl FnMut(u32, u32)) {
        each_prefix(answer, workers, tell);
    }

    fn busy(&self, writer: &mut u64, events: Vec<Self::Event>, queries: &[PromptBlocks]) -> Option<Busy> {
        Some(look_up_while_storing(self, writer, events, queries))
    }
}

// === impl FromHashes ===

impl Index for FromHashes {
    const NAME: &'static str = "kvroute";

    type Event = HashedEvent;
    type Query = PromptBlocks;
    type Writer = u64;
    type Answer = Prefixes;

    fn new(_workers: usize) -> Self {
        Self(ReportedIndex::new(IndexOptions::default()))
    }

    fn writer(&self) -> u64 {
        0
    }

    fn event(event: &Event) -> HashedEvent {
        match event {
            Event::Store { worker, parent, blocks } => {
                HashedEvent::Store(RankSlot::new(*worker), *parent, hashed(blocks))
            }
            Event::Remove { worker, names } => HashedEvent::Remove(RankSlot::new(*worker), removed(names)),
        }
    }

    fn query(contents: &[u64]) -> PromptBlocks {
        prompt_blocks(contents)
    }

    fn read(query: &PromptBlocks) -> u64 {
        read(query)
    }

    fn apply(&self, gone: &mut u64, event: HashedEvent) {
        let mut gone = |_: Removal| *gone += 1;
        let _ = match event {
            HashedEvent::Store(slot, parent, blocks) => {
                self.0.store(slot, (BLOCK_SIZE, Tier::Device), parent, &blocks, &mut gone)
            }
            HashedEvent::Remove(slot, event) => self.0.apply(slot, &event, &mut gone),
        };
    }

    fn find(&self, query: &PromptBlocks, answer: &mut Prefixes) {
        self.0.cached_prefixes(query, answer);
    }

    fn each_prefix(answer: &Prefixes, workers: usize, tell: impl FnMut(u32, u32)) {
        each_prefix(answer, workers, tell);
    }

    fn busy(&self, writer: &mut u64, events: Vec<HashedEvent>, queries: &[PromptBlocks]) -> Option<Busy> {
        Some(look_up_while_storing(self, writer, events, queries))
    }
}

fn read(query: &PromptBlocks) -> u64 {
    query.hashes().iter().fold(0, |read, hash| read ^ hash.get())
}

fn each_prefix(answer: &Prefixes, workers: usize, mut tell: impl FnMut(u32, u32)) {
    for worker in 0..workers as u32 {
        tell(worker, answer.of(RankSlot::new(worker)).blocks().get() as u32);
    }
}

fn stored(parent: Option<u64>, blocks: &[Block]) -> KvEvent {
    KvEvent::Stored(StoredBlocks {
        hashes: blocks.iter().map(|block| EngineHash::Int(block.name)).collect(),
        parent: parent.map(EngineHash::Int),
        tokens: blocks.iter().flat_map(|block| tokens(block.content)).collect(),
        block_size: BLOCK_SIZE,
        tier: Tier::Device,
        salt: None,
        adapter: None,
        extras: BlockExtras::default(),
    })
}

fn removed(names: &[u64]) -> KvEvent {
    KvEvent::Removed { hashes: names.iter().map(|&name| EngineHash::Int(name)).collect(), tier: Tier::Device }
}

fn hashed(blocks: &[Block]) -> Vec<ExportedBlock> {
    let hashed = |block: &Block| ExportedBlock { engine_key: block.name, sequence: block.sequence };
    blocks.iter().map(hashed).collect()
}
