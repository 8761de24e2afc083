//! The engine of the world: a cache that evicts, a log of what it published, payloads as they stand on the wire.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use kvroute_core::{EngineHash, KvEvent, Tier};

/// Blocks that the engine can hold.
pub(super) const CAPACITY: usize = 4;
/// Marks of messages are no blocks.
pub(super) const MARKS: u64 = 1 << 32;

/// One message: which process sent it, and its number there.
pub(super) type Sent = (u64, u64);
pub(super) type Blockset = BTreeSet<u64>;

/// An engine whose cache forgets what it touched least lately.
pub(super) struct Engine {
    pub(super) process: u64,
    /// Least lately touched first.
    pub(super) cache: VecDeque<u64>,
    pub(super) log: Vec<(Sent, Bytes)>,
    /// What was cached behind each message of any process.
    pub(super) history: BTreeMap<Sent, Blockset>,
}

fn mark((process, sequence): Sent) -> u64 {
    MARKS + process * 1000 + sequence
}

pub(super) fn of_mark(mark: u64) -> Sent {
    ((mark - MARKS) / 1000, (mark - MARKS) % 1000)
}

// === impl Engine ===

impl Engine {
    pub(super) fn new() -> Self {
        Self { process: 1, cache: VecDeque::new(), log: Vec::new(), history: BTreeMap::new() }
    }

    /// Stores a block, or touches it and says so again, as engines may; the message goes into the log.
    pub(super) fn publish(&mut self, block: u64, clears: bool) {
        let mut events = Vec::new();
        if clears {
            self.cache.clear();
            events.push(KvEvent::Cleared);
        }
        self.cache.retain(|held| *held != block);
        if self.cache.len() == CAPACITY {
            let evicted = self.cache.pop_front().unwrap();
            events.push(removed(evicted));
        }
        self.cache.push_back(block);
        let sent = (self.process, self.log.len() as u64);
        let payload = payload(mark(sent), &events, Some(block));
        self.log.push((sent, payload));
        self.history.insert(sent, self.cache.iter().copied().collect());
    }

    pub(super) fn restart(&mut self) {
        self.process += 1;
        self.cache.clear();
        self.log.clear();
    }
}

fn removed(block: u64) -> KvEvent {
    KvEvent::Removed { hashes: vec![EngineHash::Int(block)], tier: Tier::Device }
}

/// A batch of events, then a store, an event that nobody can read, and the removal of a mark that no cache holds.
fn payload(mark: u64, events: &[KvEvent], block: Option<u64>) -> Bytes {
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_f64(&mut out, mark as f64).unwrap();
    rmp::encode::write_array_len(&mut out, events.len() as u32 + u32::from(block.is_some()) + 2).unwrap();
    for event in events {
        write_event(event, &mut out);
    }
    if let Some(block) = block {
        rmp::encode::write_array_len(&mut out, 5).unwrap();
        rmp::encode::write_str(&mut out, "BlockStored").unwrap();
        rmp::encode::write_array_len(&mut out, 1).unwrap();
        rmp::encode::write_uint(&mut out, block).unwrap();
        rmp::encode::write_nil(&mut out).unwrap();
        rmp::encode::write_array_len(&mut out, 1).unwrap();
        rmp::encode::write_uint(&mut out, block).unwrap();
        rmp::encode::write_uint(&mut out, 1).unwrap();
    }
    rmp::encode::write_str(&mut out, "no event").unwrap();
    write_event(&removed(mark), &mut out);
    out.into()
}

fn write_event(event: &KvEvent, out: &mut Vec<u8>) {
    match event {
        KvEvent::Removed { hashes, .. } => {
            let [EngineHash::Int(hash)] = hashes[..] else { panic!("{hashes:?}") };
            rmp::encode::write_array_len(out, 2).unwrap();
            rmp::encode::write_str(out, "BlockRemoved").unwrap();
            rmp::encode::write_array_len(out, 1).unwrap();
            rmp::encode::write_uint(out, hash).unwrap();
        }
        _ => {
            rmp::encode::write_array_len(out, 1).unwrap();
            rmp::encode::write_str(out, "AllBlocksCleared").unwrap();
        }
    }
}
