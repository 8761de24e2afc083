//! The blocks of one remembered rank: their order of use, who pins them, and what hangs behind what.
//!
//! One record a block, found by a table that holds nothing but their places: the hash that it compares stands
//! in the record, which whoever looks a block up reads next anyway. Records are linked twice. The list of use has, oldest first, the blocks that no
//! computed attempt uses; the tree has all of them below the block before theirs. A chain is always used from its first
//! block on and goes to the young end last block first, so a block is never older than one behind it: whatever leaves
//! from the old end has nothing behind it any more.
//!
//! A block that an attempt pinned, and has not come to use yet, keeps its place, because the attempt may fail. If its
//! turn to leave comes, it is parked outside of the list instead and comes back to its old place when the attempt
//! fails.

mod order;
mod records;
mod tree;

use std::hash::{BuildHasher, BuildHasherDefault};
use std::time::Duration;

use hashbrown::HashTable;
use kvroute_core::{Blocks, FoldHasher, SequenceHash};

use self::records::Records;
use super::RememberedRank;

/// The place of a block's record; stays the same as long as the block is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node(u32);

/// All blocks of a rank.
#[derive(Clone, Debug)]
pub(super) struct RememberedBlocks {
    by_sequence: HashTable<Node>,
    records: Records,
    /// First record that is not in use; they are linked by `younger`.
    unused: Node,
    oldest: Node,
    youngest: Node,
}

/// 48 bytes.
#[derive(Clone, Debug)]
struct Record {
    sequence: SequenceHash,
    /// In nanoseconds.
    last_use: u64,
    /// Attempts that have it in their prompts, and those among them that computed it.
    pins: u32,
    users: u32,
    /// Neighbours in the list of use; `younger` is [`Node::UNLISTED`] outside of it.
    older: Node,
    younger: Node,
    parent: Node,
    first_child: Node,
    previous_sibling: Node,
    next_sibling: Node,
}

// === impl Node ===

impl Node {
    const NONE: Self = Self(u32::MAX);
    const UNLISTED: Self = Self(u32::MAX - 1);

    const fn index(self) -> usize {
        self.0 as usize
    }

    fn some(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

// === impl RememberedBlocks ===

impl RememberedBlocks {
    pub(super) fn len(&self) -> Blocks {
        Blocks::from(self.by_sequence.len())
    }

    pub(super) fn find(&self, sequence: SequenceHash) -> Option<Node> {
        let is_it = |node: &Node| self.record(*node).sequence == sequence;
        self.by_sequence.find(place_of(sequence), is_it).copied()
    }

    /// When a block was used last; `None` while it is in use.
    pub(super) fn last_use(&self, node: Node) -> Option<Duration> {
        let record = self.record(node);
        (record.users == 0).then(|| Duration::from_nanos(record.last_use))
    }

    /// The record of a block, a new one below `parent` if it is not remembered. At the most blocks that a rank may
    /// have, the oldest one leaves for it; `None` if all of them are pinned.
    pub(super) fn find_or_insert(
        &mut self,
        sequence: SequenceHash,
        parent: Option<Node>,
        evicted: &mut Vec<SequenceHash>,
    ) -> Option<Node> {
        if let Some(known) = self.find(sequence) {
            return Some(known);
        }
        if self.len().get() >= RememberedRank::MAX_BLOCKS {
            evicted.push(self.pop_oldest(|_| true)?);
        }
        let node = self.take_record(sequence);
        let records = &self.records;
        let place = |node: &Node| place_of(records[*node].sequence);
        self.by_sequence.insert_unique(place_of(sequence), node, place);
        if let Some(parent) = parent {
            self.attach(node, parent);
        }
        Some(node)
    }

    pub(super) fn pin(&mut self, node: Node) {
        self.record_mut(node).pins += 1;
    }

    /// An attempt gave up before it came to use a block that it had pinned.
    pub(super) fn unpin(&mut self, node: Node) {
        let record = self.record_mut(node);
        record.pins -= 1;
        let is_parked = record.users == 0 && !record.is_listed();
        if record.pins == 0 && is_parked {
            self.list_by_age(node);
        }
    }

    /// An attempt uses a block that it has pinned.
    pub(super) fn start_use(&mut self, node: Node, now: Duration) {
        if self.record(node).is_listed() {
            self.unlist(node);
        }
        let record = self.record_mut(node);
        record.users += 1;
        record.last_use = nanoseconds(now);
    }

    /// The use has ended, and the pin with it.
    pub(super) fn end_use(&mut self, node: Node, now: Duration) {
        let record = self.record_mut(node);
        record.users -= 1;
        record.pins -= 1;
        record.last_use = record.last_use.max(nanoseconds(now));
        if record.users == 0 {
            self.list_before(node, Node::NONE);
        }
    }

    /// Forgets the least recently used block that nobody pinned, if its last use says so.
    pub(super) fn pop_oldest(&mut self, may_leave: impl Fn(Duration) -> bool) -> Option<SequenceHash> {
        while let Some(oldest) = self.oldest.some() {
            let record = self.record(oldest);
            if !may_leave(Duration::from_nanos(record.last_use)) {
                return None;
            }
            if record.pins == 0 {
                return Some(self.remove(oldest));
            }
            self.unlist(oldest);
        }
        None
    }

    /// Forgets every block behind one that nobody pinned, and nobody used after a time.
    pub(super) fn remove_behind(&mut self, node: Node, used_until: Duration) -> Vec<SequenceHash> {
        let used_until = nanoseconds(used_until);
        let mut open = vec![node];
        let mut found = Vec::new();
        while let Some(node) = open.pop() {
            let mut child = self.record(node).first_child;
            while let Some(next) = child.some() {
                open.push(next);
                child = self.record(next).next_sibling;
            }
            let record = self.record(node);
            if record.pins == 0 && record.last_use <= used_until {
                found.push(node);
            }
        }
        // Found from the front to the back, forgotten from the back to the front.
        found.into_iter().rev().map(|node| self.remove(node)).collect()
    }

    /// Forgets a listed block.
    fn remove(&mut self, node: Node) -> SequenceHash {
        self.unlist(node);
        self.detach(node);
        let unused = std::mem::replace(&mut self.unused, node);
        let record = self.record_mut(node);
        record.younger = unused;
        let sequence = record.sequence;
        if let Ok(entry) = self.by_sequence.find_entry(place_of(sequence), |known| *known == node) {
            entry.remove();
        }
        if self.by_sequence.is_empty() {
            *self = Self::default();
        }
        sequence
    }

    fn take_record(&mut self, sequence: SequenceHash) -> Node {
        let fresh = Record::new(sequence);
        match self.unused.some() {
            Some(node) => {
                self.unused = self.record(node).younger;
                *self.record_mut(node) = fresh;
                node
            }
            None => self.records.push(fresh),
        }
    }

    fn record(&self, node: Node) -> &Record {
        &self.records[node]
    }

    fn record_mut(&mut self, node: Node) -> &mut Record {
        &mut self.records[node]
    }
}

impl Default for RememberedBlocks {
    fn default() -> Self {
        Self {
            by_sequence: HashTable::new(),
            records: Records::default(),
            unused: Node::NONE,
            oldest: Node::NONE,
            youngest: Node::NONE,
        }
    }
}

// === impl Record ===

impl Record {
    const fn new(sequence: SequenceHash) -> Self {
        Self {
            sequence,
            last_use: 0,
            pins: 0,
            users: 0,
            older: Node::NONE,
            younger: Node::UNLISTED,
            parent: Node::NONE,
            first_child: Node::NONE,
            previous_sibling: Node::NONE,
            next_sibling: Node::NONE,
        }
    }

    fn is_listed(&self) -> bool {
        self.younger != Node::UNLISTED
    }
}

/// Where a block is looked for in the table.
fn place_of(sequence: SequenceHash) -> u64 {
    BuildHasherDefault::<FoldHasher>::default().hash_one(sequence)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
