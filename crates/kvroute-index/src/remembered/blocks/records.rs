//! The records of a rank's blocks, in pieces of one size.
//!
//! One vector would be copied and take twice as much each time it grows, and what it left behind is a hole that an allocator
//! keeps.

use std::ops::{Index, IndexMut};

use super::{Node, Record};

/// Records of a piece: 48 KiB.
const PIECE: usize = 1024;

/// All records, by their place.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(Vec<Vec<Record>>);

// === impl Records ===

impl Records {
    pub(super) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * PIECE + last.len())
    }

    /// Adds a record and tells its place.
    pub(super) fn push(&mut self, record: Record) -> Node {
        let node = Node(self.len() as u32);
        match self.0.last_mut().filter(|last| last.len() < PIECE) {
            Some(last) => last.push(record),
            None => {
                // The first one grows with what a rank really holds.
                let room = if self.0.is_empty() { 1 } else { PIECE };
                let mut piece = Vec::with_capacity(room);
                piece.push(record);
                self.0.push(piece);
            }
        }
        node
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.iter().map(Vec::capacity).sum()
    }
}

impl Index<Node> for Records {
    type Output = Record;

    fn index(&self, node: Node) -> &Record {
        &self.0[node.index() / PIECE][node.index() % PIECE]
    }
}

impl IndexMut<Node> for Records {
    fn index_mut(&mut self, node: Node) -> &mut Record {
        &mut self.0[node.index() / PIECE][node.index() % PIECE]
    }
}
