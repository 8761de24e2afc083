//! The tree: every block below the one before it.

use super::{Node, RememberedBlocks};

// === impl RememberedBlocks ===

impl RememberedBlocks {
    pub(super) fn attach(&mut self, node: Node, parent: Node) {
        let next_sibling = std::mem::replace(&mut self.record_mut(parent).first_child, node);
        if let Some(next) = next_sibling.some() {
            self.record_mut(next).previous_sibling = node;
        }
        let record = self.record_mut(node);
        (record.parent, record.next_sibling) = (parent, next_sibling);
    }

    pub(super) fn detach(&mut self, node: Node) {
        let record = self.record(node);
        let (parent, previous, next) = (record.parent, record.previous_sibling, record.next_sibling);
        match (previous.some(), parent.some()) {
            (Some(previous), _) => self.record_mut(previous).next_sibling = next,
            (None, Some(parent)) => self.record_mut(parent).first_child = next,
            (None, None) => {}
        }
        if let Some(next) = next.some() {
            self.record_mut(next).previous_sibling = previous;
        }
        self.orphan_children(node);
    }

    /// A block leaves after those behind it, so it has no children; only two prompts made to collide in one hash may
    /// break that, and must not break the links.
    fn orphan_children(&mut self, node: Node) {
        let mut child = self.record(node).first_child;
        while let Some(orphan) = child.some() {
            let record = self.record_mut(orphan);
            child = record.next_sibling;
            (record.parent, record.previous_sibling, record.next_sibling) =
                (Node::NONE, Node::NONE, Node::NONE);
        }
    }
}
