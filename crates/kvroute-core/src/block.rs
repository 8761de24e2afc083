//! The size of a KV block: the one bridge between blocks and tokens.

use std::fmt;
use std::num::NonZeroU32;

use crate::{Blocks, Tokens};

/// Tokens in one KV block of an engine: 16 on most GPU builds, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize(NonZeroU32);

/// An engine or a configuration named a block of zero tokens, or one that no engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block size must be between 1 and {}", BlockSize::MAX)]
pub struct ZeroBlockSize;

// === impl BlockSize ===

impl BlockSize {
    /// The largest accepted size. Far above any engine's, and small enough that no product overflows.
    pub const MAX: u32 = 1 << 20;

    /// What engines without blocks of their own are counted in (llama.cpp, unknown OpenAI servers).
    pub const DEFAULT: Self = Self(NonZeroU32::new(16).unwrap());

    /// Refuses zero and sizes above [`BlockSize::MAX`].
    pub const fn new(tokens: u32) -> Result<Self, ZeroBlockSize> {
        match NonZeroU32::new(tokens) {
            Some(size) if tokens <= Self::MAX => Ok(Self(size)),
            _ => Err(ZeroBlockSize),
        }
    }

    /// Tokens in one block.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Tokens that so many blocks hold.
    pub const fn tokens(self, blocks: Blocks) -> Tokens {
        Tokens::new(blocks.get() * self.0.get() as u64)
    }

    /// Complete blocks in so many tokens; the partial last one is never cacheable.
    pub const fn complete_blocks(self, tokens: Tokens) -> Blocks {
        Blocks::new(tokens.get() / self.0.get() as u64)
    }

    /// Blocks that must be allocated to hold so many tokens, the partial last one included.
    pub const fn occupied_blocks(self, tokens: Tokens) -> Blocks {
        Blocks::new(tokens.get().div_ceil(self.0.get() as u64))
    }

    /// Tokens that a prompt can at most have reused: engines recompute at least the last token, so a
    /// prompt that ends on a block boundary gives up its whole last block.
    pub const fn reusable_tokens(self, prompt: Tokens) -> Tokens {
        let before_last = Tokens::new(prompt.get().saturating_sub(1));
        self.tokens(self.complete_blocks(before_last))
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_on_a_block_boundary_gives_up_its_last_block() {
        let size = BlockSize::new(32).unwrap();
        let reusable = |prompt| size.reusable_tokens(Tokens::new(prompt)).get();
        assert_eq!([0, 1, 32, 33, 64, 65].map(reusable), [0, 0, 0, 32, 32, 64]);
    }

    #[test]
    fn zero_and_absurd_sizes_are_refused() {
        assert_eq!(BlockSize::new(0), Err(ZeroBlockSize));
        assert_eq!(BlockSize::new(BlockSize::MAX + 1), Err(ZeroBlockSize));
    }
}
