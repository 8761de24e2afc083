//! Either kind of cache behind one surface.

use kvroute_core::WorkerRole;

use super::slots::SlotCache;
use super::{CacheChange, Chain, PrefixCache};
use crate::config::{Flavour, SimConfig};

/// The cache of one engine.
#[derive(Debug)]
pub(crate) enum KvCache {
    /// Blocks that sequences share.
    Blocks(PrefixCache),
    /// A few slots, each with one sequence.
    Slots(SlotCache),
}

// === impl KvCache ===

impl KvCache {
    /// An empty cache as the engine has it.
    pub(crate) fn new(config: &SimConfig) -> Self {
        let blocks = || PrefixCache::new(config.kv_blocks, config.block_size, config.seed);
        match config.flavour {
            Flavour::Vllm => Self::Blocks(blocks()),
            // Unless it is told otherwise at its start.
            Flavour::Sglang if config.role == WorkerRole::Decode => {
                Self::Blocks(blocks().into_switched_off())
            }
            Flavour::Sglang | Flavour::TrtLlm => Self::Blocks(blocks().into_tree()),
            Flavour::LlamaCpp => {
                let context = usize::try_from(config.context()).unwrap_or(usize::MAX);
                Self::Slots(SlotCache::new(config.slots, context, config.block_size))
            }
        }
    }

    /// Takes room for all tokens of a sequence that holds none. Returns the tokens that need no computing, or `None`
    /// when there is no room now.
    pub(crate) fn admit(&mut self, chain: &mut Chain) -> Option<usize> {
        match self {
            Self::Blocks(blocks) => blocks.admit(chain),
            Self::Slots(slots) => slots.admit(chain),
        }
    }

    /// Makes sure that the newest token of a sequence has room; false when there is none.
    pub(crate) fn extend(&mut self, chain: &mut Chain) -> bool {
        match self {
            Self::Blocks(blocks) => blocks.extend(chain),
            Self::Slots(slots) => slots.extend(chain),
        }
    }

    /// Caches what is computed of a sequence, which is so many tokens. Returns how many blocks are new.
    pub(crate) fn store(&mut self, chain: &mut Chain, tokens: usize) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.store_computed(chain, tokens),
            Self::Slots(_) => {
                chain.stored = tokens;
                0
            }
        }
    }

    /// Gives all room of a sequence back; what is cached stays until its room is needed.
    pub(crate) fn release(&mut self, chain: &mut Chain) {
        match self {
            Self::Blocks(blocks) => blocks.release(chain),
            Self::Slots(slots) => slots.release(chain),
        }
    }

    /// Drops everything that is cached; refused (false) while any sequence holds room.
    pub(crate) fn clear(&mut self) -> bool {
        match self {
            Self::Blocks(blocks) => blocks.clear(),
            Self::Slots(slots) => slots.clear(),
        }
    }

    /// The same without a word.
    pub(crate) fn wipe(&mut self) -> bool {
        match self {
            Self::Blocks(blocks) => blocks.wipe(),
            Self::Slots(slots) => slots.clear(),
        }
    }

    /// What happened since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<CacheChange> {
        match self {
            Self::Blocks(blocks) => blocks.take_changes(),
            Self::Slots(_) => Vec::new(),
        }
    }

    /// Blocks held by sequences.
    pub(crate) fn held_blocks(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.held_blocks(),
            Self::Slots(slots) => slots.held_blocks(),
        }
    }

    /// Blocks that hold KV.
    pub(crate) fn used_blocks(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.used_blocks(),
            Self::Slots(slots) => slots.used_blocks(),
        }
    }

    /// Different contents of complete blocks; slots have none.
    pub(crate) fn contents(&self) -> usize {
        match self {
            Self::Blocks(blocks) => blocks.contents(),
            Self::Slots(_) => 0,
        }
    }

    /// Tokens in each slot, and whether it is busy; nothing where there are no slots.
    pub(crate) fn slots(&self) -> Vec<(usize, bool)> {
        match self {
            Self::Blocks(_) => Vec::new(),
            Self::Slots(slots) => slots.occupancy(),
        }
    }
}
