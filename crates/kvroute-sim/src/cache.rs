//! The engine's prefix cache: which full blocks hold which content, and what changed.
//!
//! Engines with blocks share [`PrefixCache`], llama.cpp's slots are in [`SlotCache`]; [`KvCache`] is either.
//!
//! The rules of blocks are vLLM's, because their consequences show on the wire: a prompt reuses whole blocks only and always
//! computes its last token; blocks of running sequences are never evicted; among the idle ones the deepest block
//! of the chain that was used longest ago goes first, and blocks without finished content go before all others.
//! A block that is computed again while an equal one is cached is stored twice, announced twice, and removed twice;
//! where caches are trees (SGLang, TensorRT-LLM), the second one is given up for the first one without a word.

mod free_list;
mod images;
mod key;
mod kv;
mod pool;
mod slots;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kvroute_core::{BlockSize, PrehashedMap, TokenId};

pub(crate) use images::{ImageInBlock, ImageSpan};
pub(crate) use key::BlockKey;
use key::KeyChain;
pub(crate) use kv::KvCache;
use pool::{BlockPool, SlotIndex};

/// A prefix cache of a fixed number of blocks, for engines that have such.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    block_size: usize,
    keys: KeyChain,
    pool: BlockPool,
    /// Whether equal content is held once.
    is_tree: bool,
    /// Whether nothing is cached at all.
    is_off: bool,
    /// What blocks of hidden tenants are called outside.
    told_keys: PrehashedMap<BlockKey, BlockKey>,
    changes: Vec<CacheChange>,
}

/// How a sequence may use the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct CacheUse {
    /// Keeps its blocks apart from other tenants', and is told with them.
    pub(crate) salt: Option<Arc<str>>,
    /// The same without a word: outside, the blocks look like anybody's (SGLang's `extra_key`).
    pub(crate) hidden: Option<Arc<str>>,
    /// The images in the prompt, in the order of their places.
    pub(crate) images: Arc<[ImageSpan]>,
    /// The slot that was asked for, where there are slots.
    pub(crate) slot: Option<u32>,
    /// Everything is computed, whatever is cached.
    pub(crate) is_anew: bool,
}

/// One sequence's tokens and the blocks that it holds.
#[derive(Debug)]
pub(crate) struct Chain {
    tokens: Vec<TokenId>,
    cache_use: CacheUse,
    slots: Vec<SlotIndex>,
    /// Leading blocks whose content is complete and cached; in a slot, leading tokens that are computed.
    stored: usize,
    /// Keys of leading complete blocks, those of the stored ones at least: made once, however often a chain is tried.
    keys: Vec<BlockKey>,
    /// What those of a hidden tenant are called outside.
    told: Vec<BlockKey>,
    /// The slot that it is in.
    slot: Option<usize>,
}

/// What the engine would announce, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CacheChange {
    /// Everything was dropped.
    Cleared,
    /// Blocks became cached, each the child of the one before.
    Stored(StoredRun),
    /// One block was dropped to make room.
    Removed(BlockKey),
}

/// Consecutive blocks of one sequence that became cached in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredRun {
    /// One key a block.
    pub(crate) keys: Vec<BlockKey>,
    /// The block before the first one; `None` at the root.
    pub(crate) parent: Option<BlockKey>,
    /// The tokens of all blocks.
    pub(crate) tokens: Vec<TokenId>,
    /// The sequence's salt; it belongs to the root block only.
    pub(crate) salt: Option<Arc<str>>,
    /// The images in the blocks, in their order.
    pub(crate) images: Vec<ImageInBlock>,
}

// === impl PrefixCache ===

impl PrefixCache {
    pub(crate) fn new(blocks: u32, block_size: BlockSize, seed: u64) -> Self {
        Self {
            block_size: block_size.get() as usize,
            keys: KeyChain::new(seed),
            pool: BlockPool::new(blocks),
            is_tree: false,
            is_off: false,
            told_keys: PrehashedMap::default(),
            changes: Vec::new(),
        }
    }

    /// The same, where equal content is held once.
    pub(crate) fn into_tree(self) -> Self {
        Self { is_tree: true, ..self }
    }

    /// The same, where no sequence finds what another one computed.
    pub(crate) fn into_switched_off(self) -> Self {
        Self { is_off: true, ..self }
    }

    /// Takes blocks for all tokens of a sequence that holds none: cached ones as far as they reach, free ones for
    /// the rest. Returns the tokens that need no computing, or `None` when there is no room now.
    pub(crate) fn admit(&mut self, chain: &mut Chain) -> Option<usize> {
        debug_assert!(chain.slots.is_empty(), "a chain is admitted once until it is released");
        let slots = self.cached_prefix(chain);
        let fresh = chain.tokens.len().div_ceil(self.block_size) - slots.len();
        if !self.pool.has_room(&slots, fresh) {
            return None;
        }
        slots.iter().for_each(|slot| self.pool.hold(*slot));
        let reused = slots.len() * self.block_size;
        (chain.stored, chain.slots) = (slots.len(), slots);
        for _ in 0..fresh {
            self.claim_for(chain);
        }
        Some(reused)
    }

    /// Makes sure that the newest token of a sequence has a block; false when there is no room.
    pub(crate) fn extend(&mut self, chain: &mut Chain) -> bool {
        chain.tokens.len() <= chain.slots.len() * self.block_size || self.claim_for(chain)
    }

    /// Caches every complete block of a sequence of which so many tokens are computed. Returns how many are new.
    pub(crate) fn store_computed(&mut self, chain: &mut Chain, tokens: usize) -> usize {
        if self.is_off {
            return 0;
        }
        let complete = tokens / self.block_size;
        let first = self.share(chain, complete);
        if first >= complete {
            return 0;
        }
        for index in first..complete {
            let key = self.key_of(chain, index);
            self.pool.name(chain.slots[index], key);
        }
        chain.stored = complete;
        let told = self.told(chain, complete);
        let parent = first.checked_sub(1).map(|before| told[before]);
        self.changes.push(CacheChange::Stored(StoredRun {
            keys: told[first..complete].to_vec(),
            parent,
            tokens: chain.tokens[first * self.block_size..complete * self.block_size].to_vec(),
            salt: chain.cache_use.salt.clone().filter(|_| parent.is_none() || self.is_tree),
            images: images::in_blocks(&chain.cache_use.images, first..complete, self.block_size),
        }));
        complete - first
    }

    /// Gives all blocks of a sequence back; complete ones stay cached until their room is needed.
    pub(crate) fn release(&mut self, chain: &mut Chain) {
        chain.stored = 0;
        self.pool.release(&chain.slots);
        chain.slots.clear();
    }

    /// Drops everything that is cached; refused (false) while any sequence holds a block.
    pub(crate) fn clear(&mut self) -> bool {
        let cleared = self.wipe();
        if cleared {
            self.changes.push(CacheChange::Cleared);
        }
        cleared
    }

    /// The same without a word; refused (false) while any sequence holds a block.
    pub(crate) fn wipe(&mut self) -> bool {
        let wiped = self.pool.clear();
        if wiped {
            self.told_keys.clear();
        }
        wiped
    }

    /// What happened since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<CacheChange> {
        std::mem::take(&mut self.changes)
    }

    /// Blocks held by sequences.
    pub(crate) fn held_blocks(&self) -> usize {
        self.pool.held()
    }

    /// Blocks that hold KV: those of sequences and the idle cached ones.
    pub(crate) fn used_blocks(&self) -> usize {
        self.pool.used()
    }

    /// Different contents that are cached.
    pub(crate) fn contents(&self) -> usize {
        self.pool.contents()
    }

    /// In a tree, gives up leading new blocks of a sequence for equal cached ones. Returns where the new ones begin.
    fn share(&mut self, chain: &mut Chain, complete: usize) -> usize {
        while self.is_tree && chain.stored < complete {
            let key = self.key_of(chain, chain.stored);
            let Some(equal) = self.pool.find(key) else { break };
            self.pool.hold(equal);
            let own = std::mem::replace(&mut chain.slots[chain.stored], equal);
            self.pool.release(&[own]);
            chain.stored += 1;
        }
        chain.stored
    }

    /// What the complete blocks of a sequence are called outside.
    fn told(&mut self, chain: &mut Chain, complete: usize) -> Vec<BlockKey> {
        if chain.cache_use.hidden.is_none() {
            return chain.keys[..complete].to_vec();
        }
        for index in chain.told.len()..complete {
            let block = &chain.tokens[index * self.block_size..(index + 1) * self.block_size];
            let salt = chain.cache_use.salt.as_deref();
            let told = self.keys.next(chain.told.last().copied(), salt, block);
            self.told_keys.insert(chain.keys[index], told);
            chain.told.push(told);
        }
        chain.told[..complete].to_vec()
    }

    fn cached_prefix(&self, chain: &mut Chain) -> Vec<SlotIndex> {
        if chain.cache_use.is_anew {
            return Vec::new();
        }
        let reusable = chain.tokens.len().saturating_sub(1) / self.block_size;
        (0..reusable).map_while(|index| self.pool.find(self.key_of(chain, index))).collect()
    }

    /// The key of a complete block, of which those before it have theirs.
    fn key_of(&self, chain: &mut Chain, index: usize) -> BlockKey {
        if let Some(key) = chain.keys.get(index) {
            return *key;
        }
        let block = &chain.tokens[index * self.block_size..(index + 1) * self.block_size];
        let keys = chain.cache_use.hidden.as_deref().map_or(self.keys, |hidden| self.keys.hidden(hidden));
        let key = keys.next(chain.keys.last().copied(), chain.cache_use.salt.as_deref(), block);
        let key = images::key_with(key, &chain.cache_use.images, index * self.block_size, self.block_size);
        chain.keys.push(key);
        key
    }

    fn claim_for(&mut self, chain: &mut Chain) -> bool {
        let Some((slot, evicted)) = self.pool.claim() else { return false };
        let evicted = evicted.map(|key| self.told_keys.remove(&key).unwrap_or(key));
        self.changes.extend(evicted.map(CacheChange::Removed));
        chain.slots.push(slot);
        true
    }
}

// === impl Chain ===

impl Chain {
    /// A sequence that starts with a prompt.
    pub(crate) const fn new(prompt: Vec<TokenId>, cache_use: CacheUse) -> Self {
        Self {
            tokens: prompt,
            cache_use,
            slots: Vec::new(),
            stored: 0,
            keys: Vec::new(),
            told: Vec::new(),
            slot: None,
        }
    }

    /// Tokens so far.
    pub(crate) const fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Appends a generated token.
    pub(crate) fn push(&mut self, token: TokenId) {
        self.tokens.push(token);
    }
}
