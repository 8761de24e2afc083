//! The table that finds a run by its first block.
//!
//! A block may be in either of two buckets, so that the table fills up well without ever moving an entry:
//! a lookup that looks at both misses nothing, and a removed entry leaves no mark behind. An entry is 40 bits
//! of the hash and the run's number; what the run really holds is compared afterwards. The table is cut into
//! shards that grow by themselves, so that growing takes neither long nor much memory.

use arc_swap::ArcSwap;
use kvroute_core::SequenceHash;

use crate::run::RunId;
use crate::sync::{AtomicU64, Ordering};

#[cfg(not(all(test, loom)))]
const SHARD_BITS: u32 = 6;
#[cfg(all(test, loom))]
const SHARD_BITS: u32 = 1;
const BUCKET: usize = 8;
const RUN_BITS: u32 = 24;
const TAG: u64 = (1 << 40) - 1;
/// Odd; spreads the hash for a table, whoever made it.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Run numbers by the sequence hash of their first block.
#[derive(Debug)]
pub(crate) struct Heads {
    shards: Box<[ArcSwap<Buckets>]>,
}

#[derive(Debug)]
struct Buckets {
    entries: Box<[AtomicU64]>,
    buckets: u64,
}

/// Where a hash belongs.
#[derive(Clone, Copy, Debug)]
struct Home {
    shard: usize,
    tag: u64,
}

// === impl Heads ===

impl Heads {
    pub(crate) fn new() -> Self {
        let shard = || ArcSwap::from_pointee(Buckets::new(1));
        Self { shards: (0..1 << SHARD_BITS).map(|_| shard()).collect() }
    }

    /// The first of the runs which may begin with a block that `accept` accepts.
    pub(crate) fn find<T>(
        &self,
        head: SequenceHash,
        mut accept: impl FnMut(RunId) -> Option<T>,
    ) -> Option<T> {
        let home = Home::of(head);
        let shard = self.shards[home.shard].load();
        for bucket in shard.buckets_of(home.tag) {
            for entry in bucket {
                let value = entry.load(Ordering::Acquire);
                if value >> RUN_BITS == home.tag
                    && let Some(found) = accept(run_of(value))
                {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Adds a run. Returns the bytes by which the table grew.
    pub(crate) fn insert(&self, head: SequenceHash, run: RunId) -> usize {
        let home = Home::of(head);
        let value = home.tag << RUN_BITS | u64::from(run.get());
        let shard = self.shards[home.shard].load();
        if shard.put(value) {
            return 0;
        }
        let mut larger = shard.larger(1);
        for attempt in 2.. {
            if larger.put(value) {
                break;
            }
            larger = shard.larger(attempt);
        }
        let grown = larger.bytes() - shard.bytes();
        self.shards[home.shard].store(std::sync::Arc::new(larger));
        grown
    }

    /// Takes a run out.
    pub(crate) fn remove(&self, head: SequenceHash, run: RunId) {
        let home = Home::of(head);
        let value = home.tag << RUN_BITS | u64::from(run.get());
        let shard = self.shards[home.shard].load();
        for bucket in shard.buckets_of(home.tag) {
            if let Some(entry) = bucket.iter().find(|entry| entry.load(Ordering::Relaxed) == value) {
                entry.store(0, Ordering::Release);
                return;
            }
        }
    }

    /// Bytes of all shards.
    pub(crate) fn bytes(&self) -> usize {
        let shards = self.shards.iter().map(|shard| shard.load().bytes() + size_of::<Buckets>() + 16);
        shards.sum::<usize>() + size_of_val::<[_]>(&self.shards)
    }
}

// === impl Buckets ===

impl Buckets {
    fn new(buckets: u64) -> Self {
        let entries = (0..buckets as usize * BUCKET).map(|_| AtomicU64::new(0)).collect();
        Self { entries, buckets }
    }

    fn bytes(&self) -> usize {
        self.entries.len() * 8
    }

    fn buckets_of(&self, tag: u64) -> [&[AtomicU64]; 2] {
        let first = ((tag * self.buckets) >> 40) as usize * BUCKET;
        let other = (tag.wrapping_mul(SPREAD) >> 24) * self.buckets;
        let second = (other >> 40) as usize * BUCKET;
        [first, second].map(|at| &self.entries[at..at + BUCKET])
    }

    /// Puts an entry into the emptier one of its buckets; false if both are full.
    fn put(&self, value: u64) -> bool {
        let [first, second] = self.buckets_of(value >> RUN_BITS);
        let room =
            |bucket: &[AtomicU64]| bucket.iter().filter(|entry| entry.load(Ordering::Relaxed) == 0).count();
        let emptier = if room(second) > room(first) { second } else { first };
        match emptier.iter().find(|entry| entry.load(Ordering::Relaxed) == 0) {
            Some(entry) => {
                entry.store(value, Ordering::Release);
                true
            }
            None => false,
        }
    }

    /// The same entries in more buckets.
    fn larger(&self, attempt: u64) -> Self {
        let mut more = self.buckets + (self.buckets * 2 / 5 + 1) * attempt;
        loop {
            let larger = Self::new(more);
            let is_complete = self
                .entries
                .iter()
                .map(|entry| entry.load(Ordering::Relaxed))
                .filter(|value| *value != 0)
                .all(|value| larger.put(value));
            if is_complete {
                return larger;
            }
            more += self.buckets / 5 + 1;
        }
    }
}

// === impl Home ===

impl Home {
    fn of(head: SequenceHash) -> Self {
        let spread = (head.get() ^ head.get() >> 32).wrapping_mul(SPREAD);
        let tag = spread >> (64 - SHARD_BITS - 40) & TAG;
        Self { shard: (spread >> (64 - SHARD_BITS)) as usize, tag }
    }
}

fn run_of(value: u64) -> RunId {
    RunId::new((value & ((1 << RUN_BITS) - 1)) as u32)
}
