//! Traffic as chat makes it, as chains of blocks.
//!
//! System prompts are shared by many documents, documents by many sessions, and a session grows over some turns whose
//! answers arrive block by block. A session lives on one worker, one in four on a second one as well. A worker stores
//! only what it does not hold yet.

use std::collections::HashSet;

use kvroute_core::{BlockHash, BlockSize, Namespace, PrefixHasher, PromptBlocks, SequenceHash, TokenId};

use crate::random::{OneIn, Random, mix};

/// Tokens in a block: what most engines use on a GPU.
pub(crate) const BLOCK_SIZE: BlockSize = BlockSize::DEFAULT;

const SYSTEM_PROMPTS: usize = 16;
const DOCUMENTS: usize = 8;
const TURNS: usize = 3;
/// The last part of a session's own blocks that arrives one by one.
const DECODED_PART: usize = 8;
const REMOVED_AT_ONCE: usize = 8;
const SECOND_WORKER: OneIn = OneIn(4);
const REMOVED_SESSIONS: OneIn = OneIn(4);

/// One block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Names its tokens.
    pub(crate) content: u64,
    /// What this project makes of it and everything before it.
    pub(crate) sequence: SequenceHash,
    /// How its engine calls it.
    pub(crate) name: u64,
}

/// One change of one worker's cache.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Store { worker: u32, parent: Option<u64>, blocks: Vec<Block> },
    Remove { worker: u32, names: Vec<u64> },
}

/// Everything that one comparison stores, removes and looks up.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) workers: usize,
    pub(crate) stores: Vec<Event>,
    pub(crate) removals: Vec<Event>,
    /// Prompts that are looked up, as contents.
    pub(crate) queries: Vec<Vec<u64>>,
}

/// How long the parts of a prompt are, in blocks.
#[derive(Clone, Copy, Debug)]
struct Shape {
    prompt: usize,
    system: usize,
    /// System prompt and document.
    shared: usize,
}

/// Builds a workload and remembers what each worker holds.
struct Builder {
    shape: Shape,
    random: Random,
    systems: Vec<Vec<u64>>,
    documents: Vec<Vec<u64>>,
    held: Vec<HashSet<u64>>,
    entries: usize,
    stores: Vec<Event>,
}

struct Session {
    home: u32,
    blocks: Vec<Block>,
}

// === impl Event ===

impl Event {
    /// Blocks that it stores or removes.
    pub(crate) const fn blocks(&self) -> usize {
        match self {
            Self::Store { blocks, .. } => blocks.len(),
            Self::Remove { names, .. } => names.len(),
        }
    }
}

/// Blocks of many events.
pub(crate) fn blocks_of(events: &[Event]) -> usize {
    events.iter().map(Event::blocks).sum()
}

// === impl Workload ===

impl Workload {
    /// Sessions until the workers hold so many blocks together.
    pub(crate) fn chat(prompt: usize, workers: usize, entries: usize, seed: u64) -> Self {
        Self::chat_with_queries(prompt, workers, entries, queries_for(prompt), seed)
    }

    /// The same with so many lookups.
    pub(crate) fn chat_with_queries(
        prompt: usize,
        workers: usize,
        entries: usize,
        count: usize,
        seed: u64,
    ) -> Self {
        let mut builder = Builder::new(prompt, workers, seed);
        let mut sessions = Vec::new();
        while builder.entries < entries {
            sessions.push(builder.session());
        }
        let removals = builder.removals(&sessions);
        let queries = builder.queries(&sessions, count);
        Self { workers, stores: builder.stores, removals, queries }
    }

    /// Every worker holds the same system prompts, half a prompt long: the lookup whose answer names all of them.
    pub(crate) fn shared_by_all(prompt: usize, workers: usize, entries: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let length = (prompt / 2).max(1);
        let count = (entries / (workers * length)).clamp(1, SYSTEM_PROMPTS);
        let prompts: Vec<Vec<Block>> = (0..count).map(|_| chain(&random.take(length))).collect();
        let store =
            |worker, blocks: &Vec<Block>| Event::Store { worker, parent: None, blocks: blocks.clone() };
        let stores = (0..workers as u32)
            .flat_map(|worker| prompts.iter().map(move |blocks| store(worker, blocks)))
            .collect();
        let queries = (0..queries_for(prompt))
            .map(|_| {
                let known = &prompts[random.below(count)];
                let mut query: Vec<u64> = known.iter().map(|block| block.content).collect();
                query.extend(random.take(prompt - length));
                query
            })
            .collect();
        Self { workers, stores, removals: Vec::new(), queries }
    }

    /// The stores in two halves: the second is applied while lookups run.
    pub(crate) fn halves(&self) -> (&[Event], &[Event]) {
        self.stores.split_at(self.stores.len() / 2)
    }

    /// Blocks that differ.
    pub(crate) fn distinct(&self) -> usize {
        let blocks = self.stores.iter().flat_map(|event| match event {
            Event::Store { blocks, .. } => &blocks[..],
            Event::Remove { .. } => &[],
        });
        blocks.map(|block| block.name).collect::<HashSet<_>>().len()
    }
}

// === impl Builder ===

impl Builder {
    fn new(prompt: usize, workers: usize, seed: u64) -> Self {
        let quarter = (prompt / 4).max(1);
        let shape = Shape { prompt, system: quarter, shared: 2 * quarter };
        let mut random = Random::new(seed);
        let systems = (0..SYSTEM_PROMPTS).map(|_| random.take(quarter)).collect();
        let documents = (0..SYSTEM_PROMPTS * DOCUMENTS).map(|_| random.take(quarter)).collect();
        let held = vec![HashSet::new(); workers];
        Self { shape, random, systems, documents, held, entries: 0, stores: Vec::new() }
    }

    fn session(&mut self) -> Session {
        let system = self.random.below(SYSTEM_PROMPTS);
        let document = system * DOCUMENTS + self.random.below(DOCUMENTS);
        let own = self.random.take(self.shape.prompt - self.shape.shared);
        let contents = [&self.systems[system], &self.documents[document], &own[..]].concat();
        let blocks = chain(&contents);
        let home = self.worker();
        self.store(home, &blocks);
        if self.random.is(SECOND_WORKER) {
            let second = self.worker();
            self.store(second, &blocks);
        }
        Session { home, blocks }
    }

    fn worker(&mut self) -> u32 {
        self.random.below(self.held.len()) as u32
    }

    /// Stores what the worker lacks, one event for each turn and then one for each decoded block.
    fn store(&mut self, worker: u32, blocks: &[Block]) {
        let held = &mut self.held[worker as usize];
        let mut start = blocks.iter().take_while(|block| held.contains(&block.name)).count();
        for end in self.shape.events_end() {
            if end <= start {
                continue;
            }
            held.extend(blocks[start..end].iter().map(|block| block.name));
            let parent = start.checked_sub(1).map(|last| blocks[last].name);
            self.stores.push(Event::Store { worker, parent, blocks: blocks[start..end].to_vec() });
            self.entries += end - start;
            start = end;
        }
    }

    /// Some sessions lose their own part at home, from its end on, as an engine evicts.
    fn removals(&mut self, sessions: &[Session]) -> Vec<Event> {
        let mut removals = Vec::new();
        for session in sessions {
            if !self.random.is(REMOVED_SESSIONS) {
                continue;
            }
            let names: Vec<u64> =
                session.blocks[self.shape.shared..].iter().rev().map(|block| block.name).collect();
            let parts = names.chunks(REMOVED_AT_ONCE);
            removals.extend(parts.map(|names| Event::Remove { worker: session.home, names: names.to_vec() }));
        }
        removals
    }

    /// Half continue a session, three tenths are new below a document, a tenth below a system prompt, a tenth cold.
    fn queries(&mut self, sessions: &[Session], count: usize) -> Vec<Vec<u64>> {
        let shape = self.shape;
        let continued = shape.prompt - (shape.prompt / 16).max(1);
        (0..count)
            .map(|_| {
                let known = match self.random.below(10) {
                    0..=4 => continued,
                    5..=7 => shape.shared,
                    8 => shape.system,
                    _ => 0,
                };
                let session = &sessions[self.random.below(sessions.len())];
                let mut query: Vec<u64> = session.blocks[..known].iter().map(|block| block.content).collect();
                query.extend(self.random.take(shape.prompt - known));
                query
            })
            .collect()
    }
}

// === impl Shape ===

impl Shape {
    /// Where the events of one session end.
    fn events_end(self) -> impl Iterator<Item = usize> {
        let own = self.prompt - self.shared;
        let decoded = (own / DECODED_PART).max(1).min(own);
        let prefilled = own - decoded;
        let turns = (1..=TURNS).map(move |turn| self.shared + prefilled * turn / TURNS);
        turns.chain((1..=decoded).map(move |block| self.shared + prefilled + block))
    }
}

/// Enough to reach all parts of an index, and not more than a second's work.
fn queries_for(prompt: usize) -> usize {
    (400_000 / prompt).clamp(1000, 20_000)
}

/// The tokens that a content stands for.
pub(crate) fn tokens(content: u64) -> impl Iterator<Item = TokenId> {
    let mut random = Random::new(content);
    (0..BLOCK_SIZE.get()).map(move |_| random.below(150_000) as TokenId)
}

/// The prompt that contents stand for, hashed.
pub(crate) fn prompt_blocks(contents: &[u64]) -> PromptBlocks {
    let prompt: Vec<TokenId> = contents.iter().flat_map(|content| tokens(*content)).collect();
    PromptBlocks::new(&prompt, BLOCK_SIZE, Namespace::DEFAULT)
}

/// The names of a prompt's blocks.
pub(crate) fn block_names(contents: &[u64]) -> Vec<u64> {
    chain(contents).into_iter().map(|block| block.name).collect()
}

/// Names the blocks of a prompt by what stands before them, as engines do, in a way that is nobody's own.
fn chain(contents: &[u64]) -> Vec<Block> {
    let mut hasher = PrefixHasher::root(Namespace::DEFAULT);
    let block = |&content: &u64| {
        let tokens: Vec<TokenId> = tokens(content).collect();
        let sequence = hasher.push(BlockHash::of(&tokens));
        Block { content, sequence, name: mix(sequence.get()) }
    };
    contents.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_stores_each_block_once_and_behind_its_parent() {
        for prompt in [4, 34, 417] {
            let workload = Workload::chat(prompt, 5, 20_000, 1);
            let mut held = vec![HashSet::new(); 5];
            for event in &workload.stores {
                let Event::Store { worker, parent, blocks } = event else { panic!("a removal") };
                let held = &mut held[*worker as usize];
                assert!(parent.is_none_or(|parent| held.contains(&parent)));
                assert!(blocks.iter().all(|block| held.insert(block.name)));
            }
            let entries: usize = held.iter().map(HashSet::len).sum();
            assert_eq!(entries, blocks_of(&workload.stores));
        }
    }

    #[test]
    fn the_same_seed_is_the_same_workload() {
        let names = |seed| format!("{:?}", Workload::chat(34, 3, 5000, seed));
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }
}
