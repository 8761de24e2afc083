//! One choice's generated tokens on their way to blocks.
//!
//! An engine gives a token out when it is sampled, and computes its KV only when it samples the next one. The newest token
//! is therefore never part of a cached block: a block is complete one token late, and the last block of an answer only if
//! a token was generated behind it.

use kvroute_core::{BlockHash, BlockSize, ExtraKey, PrefixHasher, SequenceHash, TokenId};

/// Continues a prompt's chain of blocks with what one choice generates.
#[derive(Clone, Debug)]
pub struct OutputTail {
    size: usize,
    hasher: PrefixHasher,
    /// Tokens behind the last block that was told: at most a whole block, which then waits for one further token.
    waiting: Vec<TokenId>,
    /// What the next block depends on beside its tokens: the prompt's items that reach into it.
    keys: Vec<ExtraKey>,
}

/// Tokens that room is made for at once. Blocks in use are smaller; an engine may claim any size.
const LARGEST_RESERVED: usize = 4096;

// === impl OutputTail ===

impl OutputTail {
    /// `parent`: hasher behind the prompt's last complete block; `rest`: the prompt's tokens behind it, which are fewer than
    /// a block. Whole blocks among them count as the prompt's and are not told.
    pub fn new(size: BlockSize, parent: PrefixHasher, rest: &[TokenId]) -> Self {
        let size = size.get() as usize;
        let (mut hasher, blocks) = (parent, rest.chunks_exact(size));
        let mut waiting = Vec::with_capacity(size.min(LARGEST_RESERVED));
        waiting.extend_from_slice(blocks.remainder());
        for block in blocks {
            hasher.push(BlockHash::of(block));
        }
        Self { size, hasher, waiting, keys: Vec::new() }
    }

    /// The same behind a prompt of which items reach into the block that is not complete: its keys, in their order.
    #[must_use]
    pub fn with_keys(self, keys: &[ExtraKey]) -> Self {
        Self { keys: keys.to_vec(), ..self }
    }

    /// Takes the next generated ids, in any number. A block that they complete is appended to `completed` only once one
    /// further token has come: the newest token has no KV yet.
    pub fn push(&mut self, ids: &[TokenId], completed: &mut Vec<SequenceHash>) {
        let mut rest = ids;
        while !rest.is_empty() {
            if self.waiting.len() == self.size {
                let content = self.keys.drain(..).fold(BlockHash::of(&self.waiting), BlockHash::with);
                completed.push(self.hasher.push(content));
                self.waiting.clear();
            }
            if self.waiting.is_empty() && rest.len() > self.size {
                let (block, behind) = rest.split_at(self.size);
                completed.push(self.hasher.push(BlockHash::of(block)));
                rest = behind;
                continue;
            }
            let (taken, behind) = rest.split_at(rest.len().min(self.size - self.waiting.len()));
            self.waiting.extend_from_slice(taken);
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::{BlockContents, BlockExtras, ItemId, Namespace, PromptBlocks, PromptItem};
    use proptest::prelude::*;

    use super::*;

    fn size(tokens: u32) -> BlockSize {
        BlockSize::new(tokens).unwrap()
    }

    /// Behind a prompt of the default namespace.
    fn tail_behind(prompt: &[TokenId], size: BlockSize, namespace: Namespace) -> OutputTail {
        let blocks = PromptBlocks::new(prompt, size, namespace);
        let last = blocks.hashes().last();
        let parent = last.map_or_else(|| PrefixHasher::root(namespace), |last| PrefixHasher::after(*last));
        OutputTail::new(size, parent, &prompt[blocks.hashes().len() * size.get() as usize..])
    }

    fn told(tail: &mut OutputTail, ids: &[TokenId]) -> usize {
        let mut completed = Vec::new();
        tail.push(ids, &mut completed);
        completed.len()
    }

    #[test]
    fn a_block_is_told_one_token_late() {
        let mut tail = tail_behind(&[1, 2, 3], size(4), Namespace::DEFAULT);
        assert_eq!([&[4][..], &[5], &[6, 7, 8], &[], &[9]].map(|ids| told(&mut tail, ids)), [0, 1, 0, 0, 1]);
    }

    #[test]
    fn one_push_crosses_many_boundaries() {
        let mut tail = tail_behind(&[1, 2, 3], size(4), Namespace::DEFAULT);
        assert_eq!(told(&mut tail, &(0..21).collect::<Vec<_>>()), 5);
        assert_eq!(told(&mut tail, &[0]), 1, "the block that the last push filled");
    }

    #[test]
    fn a_prompt_of_whole_blocks_leaves_nothing_to_the_tail() {
        let mut tail = tail_behind(&[1, 2, 3, 4], size(4), Namespace::DEFAULT);
        assert_eq!(told(&mut tail, &[5, 6, 7, 8]), 0);
        assert_eq!(told(&mut tail, &[9]), 1);
    }

    /// An image of which the last tokens are in the block that the answer completes.
    #[test]
    fn what_reaches_into_the_first_block_is_part_of_that_block_alone() {
        let (all, size): (Vec<TokenId>, _) = ((0..13).collect(), size(4));
        let items = [PromptItem { id: ItemId::new("cat"), offset: 3, length: 3 }];
        let whole = BlockContents::new(&all[..12], size).with_items(&items).chain(Namespace::DEFAULT);
        let keys: Vec<_> = BlockExtras::of_items(&items, size, 2).of_block(1).collect();
        assert_eq!(keys.len(), 1);
        let tail = OutputTail::new(size, PrefixHasher::after(whole.hashes()[0]), &all[4..6]);
        let told = |tail: OutputTail| {
            let (mut tail, mut completed) = (tail, Vec::new());
            all[6..].iter().for_each(|id| tail.push(&[*id], &mut completed));
            completed
        };
        assert_eq!(told(tail.clone().with_keys(&keys)), whole.hashes()[1..]);
        assert_ne!(told(tail), whole.hashes()[1..]);
    }

    #[test]
    fn whole_blocks_in_the_rest_are_the_prompts() {
        let (prompt, block) = ((0..11).collect::<Vec<_>>(), size(4));
        let root = PrefixHasher::root(Namespace::DEFAULT);
        let (mut from_root, mut expected) = (OutputTail::new(block, root, &prompt), Vec::new());
        tail_behind(&prompt, block, Namespace::DEFAULT).push(&[11, 12], &mut expected);
        let mut completed = Vec::new();
        from_root.push(&[11, 12], &mut completed);
        assert_eq!(completed, expected);
    }

    proptest! {
        /// Prompt and output hashed at once, without the block that ends with the newest token.
        #[test]
        fn however_it_is_cut_an_output_hashes_as_if_it_had_been_prompt(
            prompt in prop::collection::vec(any::<TokenId>(), 0..70),
            pushes in prop::collection::vec(prop::collection::vec(any::<TokenId>(), 0..40), 0..12),
            tokens in 1u32..70,
            salt in prop::option::of("[a-z]{1,3}"),
        ) {
            let (size, namespace) = (size(tokens), Namespace::new(salt.as_deref(), None));
            let mut tail = tail_behind(&prompt, size, namespace);
            let of_prompt = prompt.len() / tokens as usize;
            let (mut sequence, mut completed) = (prompt, Vec::new());
            for ids in pushes {
                tail.push(&ids, &mut completed);
                sequence.extend(ids);
                let computed = &sequence[..sequence.len().saturating_sub(1)];
                let whole = PromptBlocks::new(computed, size, namespace);
                prop_assert_eq!(&completed[..], whole.hashes().get(of_prompt..).unwrap_or_default());
            }
        }

        #[test]
        fn the_tail_itself_never_grows(
            pushes in prop::collection::vec(prop::collection::vec(any::<TokenId>(), 0..40), 0..12),
            tokens in 1u32..20,
        ) {
            let mut tail = tail_behind(&[1, 2, 3], size(tokens), Namespace::DEFAULT);
            let room = (tail.waiting.as_ptr(), tail.waiting.capacity());
            for ids in pushes {
                tail.push(&ids, &mut Vec::new());
                prop_assert_eq!((tail.waiting.as_ptr(), tail.waiting.capacity()), room);
            }
        }
    }
}
