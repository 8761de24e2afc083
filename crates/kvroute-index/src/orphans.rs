//! Blocks whose parent is not known: set aside, never attached to the root.
//!
//! A lost message leaves children without a parent. What they are follows only from their parent's sequence,
//! so they wait, without credit, until a replay or a repeated store brings the parent. A stream that lost its
//! root for good would pile them up, therefore a rank keeps a bounded number and forgets the oldest first.
//! Only the content's hash is kept, not the tokens.

use std::collections::{BTreeMap, HashMap};

use kvroute_core::{BlockHash, Blocks};

use crate::engine_key::{EngineBlock, EngineKey};

/// One waiting block.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    parent: EngineKey,
    content: BlockHash,
    arrival: u64,
}

/// The waiting blocks of one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    blocks: HashMap<EngineBlock, Orphan>,
    children: HashMap<EngineKey, Vec<EngineBlock>>,
    by_arrival: BTreeMap<u64, EngineBlock>,
    arrivals: u64,
}

// === impl Orphans ===

impl Orphans {
    /// What one waiting block takes, its places in three maps included.
    pub(crate) const BYTES: usize = 256;

    /// Sets a block aside; false if it waits already, in this very form.
    pub(crate) fn insert(&mut self, id: EngineBlock, parent: EngineKey, content: BlockHash) -> bool {
        if let Some(known) = self.blocks.get(&id) {
            if known.parent == parent && known.content == content {
                return false;
            }
            self.remove(id);
        }
        self.arrivals += 1;
        self.blocks.insert(id, Orphan { parent, content, arrival: self.arrivals });
        self.children.entry(parent).or_default().push(id);
        self.by_arrival.insert(self.arrivals, id);
        true
    }

    /// Forgets a block; false if it does not wait.
    pub(crate) fn remove(&mut self, id: EngineBlock) -> bool {
        let Some(orphan) = self.blocks.remove(&id) else { return false };
        self.by_arrival.remove(&orphan.arrival);
        if let Some(siblings) = self.children.get_mut(&orphan.parent) {
            siblings.retain(|sibling| *sibling != id);
            if siblings.is_empty() {
                self.children.remove(&orphan.parent);
            }
        }
        true
    }

    /// Takes out the blocks that wait for a parent, with the hash of their content.
    pub(crate) fn take_children(&mut self, parent: EngineKey) -> Vec<(EngineBlock, BlockHash)> {
        let children = self.children.remove(&parent).unwrap_or_default();
        let mut taken = Vec::with_capacity(children.len());
        for id in children {
            if let Some(orphan) = self.blocks.remove(&id) {
                self.by_arrival.remove(&orphan.arrival);
                taken.push((id, orphan.content));
            }
        }
        taken
    }

    /// Forgets the oldest blocks until no more than `limit` wait. Returns how many were forgotten.
    pub(crate) fn limit_to(&mut self, limit: usize) -> u64 {
        let mut dropped = 0;
        while self.blocks.len() > limit {
            let Some((_, oldest)) = self.by_arrival.pop_first() else { break };
            self.remove(oldest);
            dropped += 1;
        }
        dropped
    }

    /// Number of waiting blocks.
    pub(crate) fn len(&self) -> Blocks {
        Blocks::from(self.blocks.len())
    }

    /// True if no block waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::{EngineHash, Tier};

    use super::*;

    fn key(name: u64) -> EngineKey {
        EngineKey::from(&EngineHash::Int(name))
    }

    fn block(name: u64) -> EngineBlock {
        EngineBlock { tier: Tier::Device, key: key(name) }
    }

    #[test]
    fn age_counts_only_what_still_waits() {
        let mut orphans = Orphans::default();
        let content = BlockHash::of(&[1]);
        for round in 0..100 {
            assert!(orphans.insert(block(1), key(10), content));
            assert!(orphans.insert(block(2), key(20 + round), content));
            assert!(orphans.remove(block(1)));
            assert_eq!(orphans.take_children(key(20 + round)).len(), 1);
        }
        assert!(orphans.insert(block(3), key(30), content));
        assert!(orphans.insert(block(1), key(10), content));
        assert_eq!(orphans.limit_to(1), 1);
        assert!(orphans.remove(block(1)));
        assert_eq!((orphans.by_arrival.len(), orphans.children.len()), (0, 0));
    }
}
