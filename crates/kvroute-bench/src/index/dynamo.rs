//! The indexes of `dynamo-kv-router`: the default one, and its plain tree.

use std::cell::RefCell;

use dynamo_kv_router::indexer::{KvIndexerInterface, SyncIndexer};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, OverlapScores, RouterEvent,
};
use dynamo_kv_router::{ConcurrentRadixTreeCompressed, RadixTree, ThreadPoolIndexer};
use tokio::runtime::Runtime;

use super::contestant::Index;
use super::measure::{Busy, look_up_while_storing};
use super::workload::{BLOCK_SIZE, Block, Event};

/// The default index with one event thread: lookups run on the caller's thread, events go there by a queue.
pub(crate) struct Compressed {
    index: ThreadPoolIndexer<ConcurrentRadixTreeCompressed>,
    /// Only waits.
    runtime: Runtime,
}

/// The plain tree, which one thread owns. It takes a query by value, so that a lookup copies it.
pub(crate) struct Plain(RefCell<RadixTree>);

// === impl Compressed ===

impl Index for Compressed {
    const NAME: &'static str = "dynamo";

    type Event = RouterEvent;
    type Query = Vec<LocalBlockHash>;
    type Writer = ();
    type Answer = OverlapScores;

    fn new(_workers: usize) -> Self {
        let index = ThreadPoolIndexer::new(ConcurrentRadixTreeCompressed::new(), 1, BLOCK_SIZE.get());
        Self { index, runtime: runtime() }
    }

    fn writer(&self) {}

    fn event(event: &Event) -> RouterEvent {
        router_event(event)
    }

    fn query(contents: &[u64]) -> Self::Query {
        local_hashes(contents)
    }

    fn read(query: &Self::Query) -> u64 {
        read(query)
    }

    fn apply(&self, (): &mut (), event: RouterEvent) {
        let _ = self.index.enqueue_event(event);
    }

    fn flush(&self) {
        self.runtime.block_on(self.index.flush());
    }

    fn find(&self, query: &Self::Query, answer: &mut OverlapScores) {
        *answer = self.index.backend().find_matches(query, false);
    }

    fn each_prefix(answer: &OverlapScores, _workers: usize, tell: impl FnMut(u32, u32)) {
        each_prefix(answer, tell);
    }

    fn busy(&self, writer: &mut (), events: Vec<RouterEvent>, queries: &[Self::Query]) -> Option<Busy> {
        Some(look_up_while_storing(self, writer, events, queries))
    }
}

impl Drop for Compressed {
    fn drop(&mut self) {
        self.index.shutdown();
    }
}

// === impl Plain ===

impl Index for Plain {
    const NAME: &'static str = "dynamo tree";

    type Event = RouterEvent;
    type Query = Vec<LocalBlockHash>;
    type Writer = ();
    type Answer = OverlapScores;

    fn new(_workers: usize) -> Self {
        Self(RefCell::new(RadixTree::new()))
    }

    fn writer(&self) {}

    fn event(event: &Event) -> RouterEvent {
        router_event(event)
    }

    fn query(contents: &[u64]) -> Self::Query {
        local_hashes(contents)
    }

    fn read(query: &Self::Query) -> u64 {
        read(query)
    }

    fn apply(&self, (): &mut (), event: RouterEvent) {
        let _ = self.0.borrow_mut().apply_event(event);
    }

    fn find(&self, query: &Self::Query, answer: &mut OverlapScores) {
        *answer = self.0.borrow().find_matches(query.clone(), false);
    }

    fn each_prefix(answer: &OverlapScores, _workers: usize, tell: impl FnMut(u32, u32)) {
        each_prefix(answer, tell);
    }

    fn busy(&self, (): &mut (), _events: Vec<RouterEvent>, _queries: &[Self::Query]) -> Option<Busy> {
        None
    }
}

fn local_hashes(contents: &[u64]) -> Vec<LocalBlockHash> {
    contents.iter().map(|&content| LocalBlockHash(content)).collect()
}

fn read(query: &[LocalBlockHash]) -> u64 {
    query.iter().fold(0, |read, hash| read ^ hash.0)
}

fn runtime() -> Runtime {
    let built = tokio::runtime::Builder::new_current_thread().build();
    #[expect(clippy::expect_used, reason = "without any driver there is nothing that could fail")]
    built.expect("a runtime without drivers")
}

fn each_prefix(answer: &OverlapScores, mut tell: impl FnMut(u32, u32)) {
    answer.scores.iter().for_each(|(worker, blocks)| tell(worker.worker_id as u32, *blocks));
}

fn router_event(event: &Event) -> RouterEvent {
    let (worker, data) = match event {
        Event::Store { worker, parent, blocks } => (worker, stored(*parent, blocks)),
        Event::Remove { worker, names } => {
            let block_hashes = names.iter().map(|&name| ExternalSequenceBlockHash(name)).collect();
            (worker, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }))
        }
    };
    RouterEvent::new(u64::from(*worker), KvCacheEvent { event_id: 0, data, dp_rank: 0 })
}

fn stored(parent: Option<u64>, blocks: &[Block]) -> KvCacheEventData {
    let block = |block: &Block| KvCacheStoredBlockData {
        block_hash: ExternalSequenceBlockHash(block.name),
        tokens_hash: LocalBlockHash(block.content),
        mm_extra_info: None,
    };
    KvCacheEventData::Stored(KvCacheStoreData {
        parent_hash: parent.map(ExternalSequenceBlockHash),
        start_position: None,
        blocks: blocks.iter().map(block).collect(),
    })
}
