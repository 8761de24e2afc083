//! The list of use: the blocks that no computed attempt uses, oldest first.

use super::{Node, RememberedBlocks};

// === impl RememberedBlocks ===

impl RememberedBlocks {
    /// Puts a block back to its place among the oldest.
    pub(super) fn list_by_age(&mut self, node: Node) {
        let place = self.listed_ancestor_of_same_age(node).unwrap_or_else(|| self.first_younger(node));
        self.list_before(node, place);
    }

    /// Blocks of one use are equally old: among them it stands right before the next block of its chain.
    fn listed_ancestor_of_same_age(&self, node: Node) -> Option<Node> {
        let last_use = self.record(node).last_use;
        let mut ancestor = self.record(node).parent;
        while let Some(next) = ancestor.some() {
            let record = self.record(next);
            if record.last_use != last_use {
                return None;
            }
            if record.is_listed() {
                return Some(next);
            }
            ancestor = record.parent;
        }
        None
    }

    /// The first block of the list that was used later. Near, because only blocks that came back are older.
    fn first_younger(&self, node: Node) -> Node {
        let last_use = self.record(node).last_use;
        let mut place = self.oldest;
        while let Some(next) = place.some() {
            let record = self.record(next);
            if record.last_use > last_use {
                break;
            }
            place = record.younger;
        }
        place
    }

    /// Puts a block before a younger one; `NONE` makes it the youngest.
    pub(super) fn list_before(&mut self, node: Node, younger: Node) {
        let older = match younger.some() {
            Some(younger) => std::mem::replace(&mut self.record_mut(younger).older, node),
            None => std::mem::replace(&mut self.youngest, node),
        };
        match older.some() {
            Some(older) => self.record_mut(older).younger = node,
            None => self.oldest = node,
        }
        let record = self.record_mut(node);
        (record.older, record.younger) = (older, younger);
    }

    pub(super) fn unlist(&mut self, node: Node) {
        let record = self.record_mut(node);
        let (older, younger) = (record.older, record.younger);
        record.younger = Node::UNLISTED;
        match older.some() {
            Some(older) => self.record_mut(older).younger = younger,
            None => self.oldest = younger,
        }
        match younger.some() {
            Some(younger) => self.record_mut(younger).older = older,
            None => self.youngest = older,
        }
    }
}
