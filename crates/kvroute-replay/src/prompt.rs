//! Token ids for a prompt of which only block ids are known.
//!
//! Token `k` of block `h` is a pure function of (seed, h, k), so equal ids give equal tokens on every machine
//! and any engine whose block size divides the trace's finds exactly the recorded sharing. The partial last
//! block is drawn from a stream of its own request: no engine of the recorded block size could have reused it,
//! and an engine with smaller blocks must not find sharing there that the trace does not claim.

use std::ops::Range;

use kvroute_core::{BlockSize, TokenId};

use crate::TraceRequest;

/// Token ids that prompts may be drawn from: leave out special tokens, which engines treat apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRange(Range<TokenId>);

/// A range too small to tell blocks apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token ids {}..{} are {} ids; prompts need at least {}", .0.start, .0.end, .0.len(), TokenRange::MIN_IDS)]
pub struct TokenRangeError(Range<TokenId>);

/// Makes the token ids of a trace's requests.
#[derive(Clone, Debug)]
pub struct PromptSynthesizer {
    seed: u64,
    allowed: TokenRange,
    block_size: BlockSize,
}

/// Separates the streams of tails from those of blocks.
const TAIL_DOMAIN: u64 = 0x7461_696c;

// === impl TokenRange ===

impl TokenRange {
    /// With fewer ids, two different blocks of a small engine block size could be equal by chance.
    pub const MIN_IDS: usize = 64;

    /// Ids from `start` up to, but without, `end`.
    pub fn new(ids: Range<TokenId>) -> Result<Self, TokenRangeError> {
        if ids.len() < Self::MIN_IDS {
            return Err(TokenRangeError(ids));
        }
        Ok(Self(ids))
    }

    /// The id that a uniformly random number stands for.
    fn pick(&self, random: u64) -> TokenId {
        let count = u64::from(self.0.end - self.0.start);
        self.0.start + ((u128::from(random) * u128::from(count)) >> 64) as TokenId
    }
}

// === impl PromptSynthesizer ===

impl PromptSynthesizer {
    /// A synthesizer for traces of one block size. Another seed makes other tokens of the same sharing.
    pub const fn new(block_size: BlockSize, allowed: TokenRange, seed: u64) -> Self {
        Self { seed, allowed, block_size }
    }

    /// The prompt of a request, `request.input` ids long. `position` tells requests apart: their place in the
    /// trace.
    pub fn prompt(&self, position: usize, request: &TraceRequest) -> Vec<TokenId> {
        let length = request.input.get() as usize;
        let mut tokens = Vec::with_capacity(length);
        for block in request.complete_blocks(self.block_size) {
            self.extend(&mut tokens, mix(self.seed) ^ *block, self.block_size.get() as usize);
        }
        let tail = length - tokens.len();
        self.extend(&mut tokens, mix(self.seed ^ TAIL_DOMAIN) ^ position as u64, tail);
        tokens
    }

    fn extend(&self, tokens: &mut Vec<TokenId>, stream: u64, count: usize) {
        let start = mix(stream);
        tokens.extend((0..count as u64).map(|index| self.allowed.pick(mix(start.wrapping_add(index)))));
    }
}

/// The SplitMix64 finaliser over the golden-ratio sequence: a well-mixed 64-bit value of any counter.
const fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
