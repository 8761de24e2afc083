//! What the index knows of one request, on every rank of the pool.
//!
//! Ranks may have blocks of different sizes, so a prompt is hashed once a distinct size. A prompt list is looked
//! up prompt by prompt, and summed a rank.

use std::cell::RefCell;

use kvroute_core::{BlockContents, BlockSize, Namespace, PromptBlocks, RankSlot};
use kvroute_index::{CachedPrefix, Prefixes, ReportedIndex};
use kvroute_select::CachedTokens;

use crate::counting::TokenizedPrompts;

thread_local! {
    /// Answers of the lookup at hand: a lookup among a thousand ranks need not allocate.
    static FOUND: RefCell<Prefixes> = RefCell::default();
}

/// The prompts of one request, cut and hashed by every block size of the pool.
#[derive(Debug, Default)]
pub(crate) struct HashedPrompts {
    by_size: Vec<(BlockSize, Vec<PromptBlocks>)>,
}

// === impl HashedPrompts ===

impl HashedPrompts {
    /// Hashes the prompts once for each of `sizes`, which are distinct. Calls `contents_done` between hashing
    /// the blocks' contents and chaining them, which are timed apart.
    pub(crate) fn new(
        prompts: &TokenizedPrompts,
        sizes: &[BlockSize],
        namespace: Namespace,
        contents_done: impl FnOnce(),
    ) -> Self {
        let contents_of = |size: BlockSize| {
            prompts.iter().map(move |tokens| BlockContents::new(tokens, size)).collect::<Vec<_>>()
        };
        let contents: Vec<_> = sizes.iter().map(|&size| (size, contents_of(size))).collect();
        contents_done();
        let chain = |(size, contents): (BlockSize, Vec<BlockContents>)| {
            (size, contents.iter().map(|prompt| prompt.chain(namespace)).collect())
        };
        Self { by_size: contents.into_iter().map(chain).collect() }
    }

    /// The prompts as a rank with blocks of that size sees them; empty if they were not hashed for it.
    pub(crate) fn of_size(&self, size: BlockSize) -> &[PromptBlocks] {
        self.by_size.iter().find(|(known, _)| *known == size).map_or(&[], |(_, blocks)| blocks)
    }

    /// Cached prefix of all prompts on each of `slots`, in their order, in raw tokens.
    pub(crate) fn cached_on(&self, index: &ReportedIndex, slots: &[RankSlot]) -> Vec<CachedTokens> {
        let mut totals = vec![CachedTokens::NONE; slots.len()];
        FOUND.with_borrow_mut(|found| {
            for (size, prompts) in &self.by_size {
                for prompt in prompts {
                    index.cached_prefixes(prompt, found);
                    for (total, slot) in totals.iter_mut().zip(slots) {
                        add(total, found.of(*slot), *size);
                    }
                }
            }
        });
        totals
    }
}

fn add(total: &mut CachedTokens, prefix: CachedPrefix, size: BlockSize) {
    total.device += size.tokens(prefix.device);
    total.host += size.tokens(prefix.host);
    total.disk += size.tokens(prefix.disk);
}
