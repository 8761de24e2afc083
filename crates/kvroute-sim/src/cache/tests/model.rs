//! The same cache as plain lists: content instead of keys, searches instead of links.

use std::collections::HashMap;

use kvroute_core::TokenId;

use crate::cache::{BlockKey, CacheChange};

/// All tokens up to and including a block, and whether they are salted.
pub(super) type Content = (bool, Vec<TokenId>);

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Cleared,
    Stored(Vec<Content>),
    Removed(Content),
}

pub(super) struct Sequence {
    pub(super) tokens: Vec<TokenId>,
    salted: bool,
    blocks: Vec<usize>,
    complete: usize,
}

pub(super) struct Model {
    block_size: usize,
    contents: Vec<Option<Content>>,
    holders: Vec<usize>,
    /// Idle blocks, the next one to be taken in front.
    idle: Vec<usize>,
    /// Blocks in the order in which they got their content.
    named: Vec<usize>,
    changes: Vec<Change>,
}

/// Tells the content behind the cache's keys, from what it announced itself.
#[derive(Default)]
pub(super) struct Names(HashMap<BlockKey, Content>);

impl Sequence {
    pub(super) fn new(tokens: Vec<TokenId>, salted: bool) -> Self {
        Self { tokens, salted, blocks: Vec::new(), complete: 0 }
    }

    fn content(&self, blocks: usize, block_size: usize) -> Content {
        (self.salted, self.tokens[..blocks * block_size].to_vec())
    }
}

impl Model {
    pub(super) fn new(blocks: usize, block_size: usize) -> Self {
        Self {
            block_size,
            contents: vec![None; blocks],
            holders: vec![0; blocks],
            idle: (0..blocks).collect(),
            named: Vec::new(),
            changes: Vec::new(),
        }
    }

    pub(super) fn admit(&mut self, sequence: &mut Sequence) -> Option<usize> {
        let size = self.block_size;
        let mut cached = Vec::new();
        while (cached.len() + 1) * size < sequence.tokens.len() {
            let content = Some(sequence.content(cached.len() + 1, size));
            let Some(block) = self.named.iter().find(|block| self.contents[**block] == content) else {
                break;
            };
            cached.push(*block);
        }
        let needed = sequence.tokens.len().div_ceil(size) - cached.len();
        let still_idle = self.idle.iter().filter(|block| !cached.contains(block)).count();
        if needed > still_idle {
            return None;
        }
        self.idle.retain(|block| !cached.contains(block));
        cached.iter().for_each(|block| self.holders[*block] += 1);
        sequence.complete = cached.len();
        sequence.blocks = cached;
        for _ in 0..needed {
            self.take_block(sequence);
        }
        Some(sequence.complete * size)
    }

    pub(super) fn extend(&mut self, sequence: &mut Sequence) -> bool {
        if sequence.tokens.len() > sequence.blocks.len() * self.block_size {
            if self.idle.is_empty() {
                return false;
            }
            self.take_block(sequence);
        }
        true
    }

    pub(super) fn store(&mut self, sequence: &mut Sequence) -> usize {
        let mut stored = Vec::new();
        while (sequence.complete + 1) * self.block_size <= sequence.tokens.len() {
            let content = sequence.content(sequence.complete + 1, self.block_size);
            let block = sequence.blocks[sequence.complete];
            self.contents[block] = Some(content.clone());
            self.named.push(block);
            sequence.complete += 1;
            stored.push(content);
        }
        let count = stored.len();
        if count > 0 {
            self.changes.push(Change::Stored(stored));
        }
        count
    }

    pub(super) fn release(&mut self, sequence: Sequence) {
        for block in sequence.blocks.into_iter().rev() {
            self.holders[block] -= 1;
            match (self.holders[block], &self.contents[block]) {
                (0, Some(_)) => self.idle.push(block),
                (0, None) => self.idle.insert(0, block),
                _ => {}
            }
        }
    }

    pub(super) fn clear(&mut self) -> bool {
        if self.held() > 0 {
            return false;
        }
        self.contents.fill(None);
        self.named.clear();
        self.changes.push(Change::Cleared);
        true
    }

    pub(super) fn is_stuck(&self, sequence: &Sequence) -> bool {
        sequence.tokens.len() > sequence.blocks.len() * self.block_size
    }

    pub(super) fn held(&self) -> usize {
        self.holders.iter().filter(|holders| **holders > 0).count()
    }

    pub(super) fn used(&self) -> usize {
        let has_kv = |block: &usize| self.holders[*block] > 0 || self.contents[*block].is_some();
        (0..self.contents.len()).filter(has_kv).count()
    }

    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    fn take_block(&mut self, sequence: &mut Sequence) {
        let block = self.idle.remove(0);
        if let Some(content) = self.contents[block].take() {
            self.named.retain(|named| *named != block);
            self.changes.push(Change::Removed(content));
        }
        self.holders[block] = 1;
        sequence.blocks.push(block);
    }
}

impl Names {
    pub(super) fn translate(&mut self, changes: Vec<CacheChange>) -> Vec<Change> {
        changes.into_iter().map(|change| self.change(change)).collect()
    }

    fn change(&mut self, change: CacheChange) -> Change {
        match change {
            CacheChange::Cleared => Change::Cleared,
            CacheChange::Removed(key) => Change::Removed(self.0[&key].clone()),
            CacheChange::Stored(run) => {
                let (mut salted, mut tokens) = (run.salt.is_some(), Vec::new());
                if let Some(parent) = run.parent {
                    (salted, tokens) = self.0[&parent].clone();
                }
                let block_size = run.tokens.len() / run.keys.len();
                let mut contents = Vec::new();
                for (key, block) in run.keys.iter().zip(run.tokens.chunks(block_size)) {
                    tokens.extend_from_slice(block);
                    let content = (salted, tokens.clone());
                    let known = self.0.insert(*key, content.clone());
                    assert!(known.is_none_or(|known| known == content), "a key means one content");
                    contents.push(content);
                }
                Change::Stored(contents)
            }
        }
    }
}
