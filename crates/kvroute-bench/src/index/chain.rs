//! The event index of `kv-index`, called by the thread that has the event, as its gateway does.

use kv_index::{ChainBlockMap, ChainIndex, ContentHash, OverlapScores, SequenceHash, StoredBlock};

use super::contestant::Index;
use super::measure::{Busy, look_up_while_storing};
use super::workload::Event;

/// Answers with a map of scores.
pub(crate) struct Chain(ChainIndex);

/// The same index, whose walk reports into a dense list that the caller keeps: nothing is allocated.
pub(crate) struct DenseChain(ChainIndex);

pub(crate) enum ChainEvent {
    Store(u32, Option<SequenceHash>, Vec<StoredBlock>),
    Remove(u32, Vec<SequenceHash>),
}

/// Scores by worker, and which of them are set.
#[derive(Debug, Default)]
pub(crate) struct DenseScores {
    scores: Vec<u32>,
    workers: Vec<u32>,
}

// === impl Chain ===

impl Index for Chain {
    const NAME: &'static str = "kv-index map";

    type Event = ChainEvent;
    type Query = Vec<ContentHash>;
    type Writer = Vec<ChainBlockMap>;
    type Answer = OverlapScores;

    fn new(workers: usize) -> Self {
        Self(chain_index(workers))
    }

    fn writer(&self) -> Self::Writer {
        block_maps(&self.0)
    }

    fn event(event: &Event) -> ChainEvent {
        chain_event(event)
    }

    fn query(contents: &[u64]) -> Self::Query {
        content_hashes(contents)
    }

    fn read(query: &Self::Query) -> u64 {
        read(query)
    }

    fn apply(&self, writer: &mut Self::Writer, event: ChainEvent) {
        apply(&self.0, writer, event);
    }

    fn find(&self, query: &Self::Query, answer: &mut OverlapScores) {
        *answer = self.0.find_matches(query, false);
    }

    fn each_prefix(answer: &OverlapScores, _workers: usize, mut tell: impl FnMut(u32, u32)) {
        answer.scores.iter().for_each(|(worker, blocks)| tell(*worker, *blocks));
    }

    fn busy(
        &self,
        writer: &mut Self::Writer,
        events: Vec<ChainEvent>,
        queries: &[Self::Query],
    ) -> Option<Busy> {
        Some(look_up_while_storing(self, writer, events, queries))
    }
}

// === impl DenseChain ===

impl Index for DenseChain {
    const NAME: &'static str = "kv-index";

    type Event = ChainEvent;
    type Query = Vec<ContentHash>;
    type Writer = Vec<ChainBlockMap>;
    type Answer = DenseScores;

    fn new(workers: usize) -> Self {
        Self(chain_index(workers))
    }

    fn writer(&self) -> Self::Writer {
        block_maps(&self.0)
    }

    fn event(event: &Event) -> ChainEvent {
        chain_event(event)
    }

    fn query(contents: &[u64]) -> Self::Query {
        content_hashes(contents)
    }

    fn read(query: &Self::Query) -> u64 {
        read(query)
    }

    fn apply(&self, writer: &mut Self::Writer, event: ChainEvent) {
        apply(&self.0, writer, event);
    }

    fn find(&self, query: &Self::Query, answer: &mut DenseScores) {
        answer.clear();
        self.0.score_into(query, |content| content.0, false, |worker, score| answer.set(worker, score));
    }

    fn each_prefix(answer: &DenseScores, _workers: usize, mut tell: impl FnMut(u32, u32)) {
        answer.workers.iter().for_each(|worker| tell(*worker, answer.scores[*worker as usize]));
    }

    fn busy(
        &self,
        writer: &mut Self::Writer,
        events: Vec<ChainEvent>,
        queries: &[Self::Query],
    ) -> Option<Busy> {
        Some(look_up_while_storing(self, writer, events, queries))
    }
}

// === impl DenseScores ===

impl DenseScores {
    fn clear(&mut self) {
        for worker in self.workers.drain(..) {
            self.scores[worker as usize] = 0;
        }
    }

    fn set(&mut self, worker: u32, score: u32) {
        let slot = worker as usize;
        if slot >= self.scores.len() {
            self.scores.resize(slot + 1, 0);
        }
        self.scores[slot] = score;
        self.workers.push(worker);
    }
}

/// Workers are numbered in the order in which they are made known.
fn chain_index(workers: usize) -> ChainIndex {
    let index = ChainIndex::with_max_workers(workers);
    for worker in 0..workers {
        let number = index.intern_worker(&worker.to_string()).ok();
        assert_eq!(number, Some(worker as u32), "kv-index numbers its workers in another way");
    }
    index
}

/// One map for each worker that the index can have.
fn block_maps(_index: &ChainIndex) -> Vec<ChainBlockMap> {
    const MOST_WORKERS: usize = 1024;
    (0..MOST_WORKERS).map(|_| ChainBlockMap::new()).collect()
}

fn content_hashes(contents: &[u64]) -> Vec<ContentHash> {
    contents.iter().map(|&content| ContentHash(content)).collect()
}

fn read(query: &[ContentHash]) -> u64 {
    query.iter().fold(0, |read, hash| read ^ hash.0)
}

fn chain_event(event: &Event) -> ChainEvent {
    match event {
        Event::Store { worker, parent, blocks } => {
            let stored = |block: &super::workload::Block| StoredBlock {
                seq_hash: SequenceHash(block.name),
                content_hash: ContentHash(block.content),
            };
            ChainEvent::Store(*worker, parent.map(SequenceHash), blocks.iter().map(stored).collect())
        }
        Event::Remove { worker, names } => {
            ChainEvent::Remove(*worker, names.iter().map(|&name| SequenceHash(name)).collect())
        }
    }
}

fn apply(index: &ChainIndex, maps: &mut [ChainBlockMap], event: ChainEvent) {
    match event {
        ChainEvent::Store(worker, parent, blocks) => {
            let _ = index.apply_stored(worker, &blocks, parent, &mut maps[worker as usize]);
        }
        ChainEvent::Remove(worker, names) => index.apply_removed(worker, &names, &mut maps[worker as usize]),
    }
}
