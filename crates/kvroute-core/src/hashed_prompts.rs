//! The prompts of one request as every rank of a pool sees them: ranks may have blocks of different sizes, so a prompt
//! is hashed once a distinct size.

use crate::{BlockContents, BlockSize, Namespace, PromptBlocks, PromptItem, TokenId};

/// The prompts of one request, cut and hashed by every block size of the pool.
#[derive(Clone, Debug, Default)]
pub struct HashedPrompts {
    by_size: Vec<(BlockSize, Vec<PromptBlocks>)>,
}

// === impl HashedPrompts ===

impl HashedPrompts {
    /// Hashes the prompts once for each of `sizes`, which are distinct. Calls `contents_done` between hashing
    /// the blocks' contents and chaining them, which are timed apart.
    pub fn new(
        prompts: &[Vec<TokenId>],
        sizes: &[BlockSize],
        namespace: Namespace,
        contents_done: impl FnOnce(),
    ) -> Self {
        Self::with_items(prompts, &[], sizes, namespace, contents_done)
    }

    /// The same, where items stand in the prompts: `items` has a list a prompt, or none at all.
    pub fn with_items(
        prompts: &[Vec<TokenId>],
        items: &[Vec<PromptItem>],
        sizes: &[BlockSize],
        namespace: Namespace,
        contents_done: impl FnOnce(),
    ) -> Self {
        let items_of = |prompt: usize| items.get(prompt).map_or(&[][..], Vec::as_slice);
        let contents_of = |size: BlockSize| {
            let contents = |(index, tokens): (usize, &Vec<TokenId>)| {
                BlockContents::new(tokens, size).with_items(items_of(index))
            };
            prompts.iter().enumerate().map(contents).collect::<Vec<_>>()
        };
        let contents: Vec<_> = sizes.iter().map(|&size| (size, contents_of(size))).collect();
        contents_done();
        let chain = |(size, contents): (BlockSize, Vec<BlockContents>)| {
            (size, contents.iter().map(|prompt| prompt.chain(namespace)).collect())
        };
        Self { by_size: contents.into_iter().map(chain).collect() }
    }

    /// The prompts as a rank with blocks of that size sees them; empty if they were not hashed for it.
    pub fn of_size(&self, size: BlockSize) -> &[PromptBlocks] {
        self.by_size.iter().find(|(known, _)| *known == size).map_or(&[], |(_, blocks)| blocks)
    }

    /// Each size that the prompts were hashed for, with the prompts.
    pub fn by_size(&self) -> impl Iterator<Item = (BlockSize, &[PromptBlocks])> {
        self.by_size.iter().map(|(size, prompts)| (*size, prompts.as_slice()))
    }
}
