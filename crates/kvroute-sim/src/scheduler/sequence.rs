//! One answer in the making: a prompt, its blocks and the tokens generated so far.

use std::time::Duration;

use kvroute_core::TokenId;

use crate::cache::{CacheUse, Chain};
use crate::words::WordStream;

/// Names a sequence for as long as the engine lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SequenceId(u64);

/// How a sequence's prompt was computed the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrefillReport {
    /// Prompt tokens that were taken from the cache.
    pub(crate) reused_tokens: u64,
    /// Prompt tokens whose KV came from another engine.
    pub(crate) transferred_tokens: u64,
    /// Blocks that became cached with the prompt.
    pub(crate) created_blocks: u64,
}

/// One choice of an answer to one prompt.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub(super) id: SequenceId,
    pub(super) chain: Chain,
    pub(super) words: WordStream,
    pub(super) arrived: Duration,
    pub(super) prefill: PrefillReport,
    /// Whether the prompt is this sequence's own in the statistics: further choices of it are not counted again.
    pub(super) counts_prompt: bool,
    /// Leading prompt tokens whose KV comes from another engine, until it is used.
    pub(super) arriving: usize,
    /// Whether its room is kept when it has ended, for another engine to take the KV.
    pub(super) is_kept: bool,
    was_computed: bool,
    missing_tokens: u64,
}

// === impl SequenceId ===

impl SequenceId {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

// === impl Sequence ===

impl Sequence {
    /// A sequence of at least one more token. The first choice of a prompt is the one that is counted.
    pub(crate) fn new(id: SequenceId, prompt: Prompt<'_>, choice: u32, arrived: Duration) -> Self {
        Self {
            id,
            chain: Chain::new(prompt.tokens.to_vec(), prompt.cache_use.clone()),
            words: WordStream::new(prompt.seed, prompt.tokens, choice),
            arrived,
            prefill: PrefillReport::default(),
            counts_prompt: choice == 0,
            arriving: prompt.arriving,
            is_kept: prompt.is_kept,
            was_computed: false,
            missing_tokens: prompt.max_tokens.max(1),
        }
    }

    pub(super) const fn is_finished(&self) -> bool {
        self.missing_tokens == 0
    }

    pub(super) fn append(&mut self, token: TokenId) {
        self.chain.push(token);
        self.missing_tokens -= 1;
    }

    /// Keeps what the first prefill found; false when the sequence had been computed before a preemption.
    pub(super) const fn note_prefill(&mut self, report: PrefillReport) -> bool {
        if self.was_computed {
            return false;
        }
        self.was_computed = true;
        self.prefill = report;
        true
    }
}

/// What the choices of one prompt share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    /// The ids, at least one.
    pub(crate) tokens: &'a [TokenId],
    /// How the cache may be used.
    pub(crate) cache_use: &'a CacheUse,
    /// Leading tokens whose KV comes from another engine.
    pub(crate) arriving: usize,
    /// Whether the room is kept at the end.
    pub(crate) is_kept: bool,
    /// Tokens to generate.
    pub(crate) max_tokens: u64,
    /// The engine's seed.
    pub(crate) seed: u64,
}
