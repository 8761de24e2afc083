//! What a fleet is and what is asked of it: plain data, made from a seed.

use std::time::Duration;

use kvroute_core::{BlockSize, TokenId};
use kvroute_replay::TraceRequest;
use kvroute_sim::SimConfig;

use crate::random::mix;

/// One run of a workload.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) engine: EngineSpeed,
    /// Workers that the fleet ever has.
    pub(super) workers: usize,
    /// Workers that are not there from the start.
    pub(super) joins: Vec<Join>,
    pub(super) stuck: Option<Stuck>,
    pub(super) chains: Vec<Chain>,
    /// Requests asked earlier only warm the caches.
    pub(super) measured_from: Duration,
    /// Nothing is asked later.
    pub(super) ends: Duration,
}

/// What one engine can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct EngineSpeed {
    /// Prompt tokens a second.
    pub(super) prefill_tps: u64,
    /// Steps a second of sequences without context.
    pub(super) steps: u64,
    /// Tokens of context read a second.
    pub(super) context_tps: u64,
    /// Prompt tokens of one step.
    pub(super) step_tokens: u32,
    /// Tokens that its cache holds.
    pub(super) kv_tokens: u32,
}

/// A worker that comes later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Join {
    pub(super) worker: usize,
    pub(super) at: Duration,
}

/// A worker that accepts requests and never answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stuck {
    pub(super) worker: usize,
    pub(super) from: Duration,
    /// After which a request to it is given up and asked again elsewhere.
    pub(super) patience: Duration,
}

/// Turns of which each begins when the answer before it has ended.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) start: Duration,
    pub(super) turns: Vec<Turn>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// Between the answer before and this request.
    pub(super) pause: Duration,
    pub(super) prompt: Prompt,
    /// Tokens of the answer.
    pub(super) output: u64,
    /// The session that the client names.
    pub(super) session: Option<u64>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum Prompt {
    /// Something that nobody continues.
    Once(Vec<Text>),
    /// All that was said in a conversation so far, and something new.
    Continues { conversation: u64, new: Vec<Text> },
    /// As it was recorded, and its place in the recording.
    Recorded(TraceRequest, usize),
}

/// Tokens that follow from a number: equal numbers, equal tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) number: u64,
    pub(super) tokens: usize,
}

pub(super) const BLOCK_SIZE: BlockSize = BlockSize::DEFAULT;

/// A model of 8 billion parameters on one accelerator: 131 kB of KV a token, 16 GB of weights read in each step.
pub(super) const TYPICAL: EngineSpeed = EngineSpeed {
    prefill_tps: 15_000,
    steps: 100,
    context_tps: 20_000_000,
    step_tokens: 2048,
    kv_tokens: 350_000,
};

/// Ids of texts: none of those that engines answer with.
const TEXT_IDS: u32 = 100_000;
const FIRST_TEXT_ID: u32 = 10_000;

// === impl Plan ===

impl Plan {
    /// A fleet that nobody asks anything yet, all of it there from the start and measured to the end.
    pub(super) const fn of(engine: EngineSpeed, workers: usize) -> Self {
        Self {
            engine,
            workers,
            joins: Vec::new(),
            stuck: None,
            chains: Vec::new(),
            measured_from: Duration::ZERO,
            ends: Duration::MAX,
        }
    }

    /// The same with so many times the traffic.
    pub(super) fn at_load(mut self, load: f64) -> Self {
        self.chains.iter_mut().for_each(|chain| chain.start = chain.start.div_f64(load));
        self
    }
}

// === impl EngineSpeed ===

impl EngineSpeed {
    pub(super) fn config(self, seed: u64) -> SimConfig {
        SimConfig {
            kv_blocks: self.kv_tokens / BLOCK_SIZE.get(),
            block_size: BLOCK_SIZE,
            prefill_tps: self.prefill_tps,
            decode_tps: self.steps,
            kv_read_tps: self.context_tps,
            step_tokens: self.step_tokens,
            seed,
            ..SimConfig::default()
        }
    }
}

// === impl Turn ===

impl Turn {
    /// A request that stands for itself.
    pub(super) const fn once(texts: Vec<Text>, output: u64) -> Self {
        Self { pause: Duration::ZERO, prompt: Prompt::Once(texts), output, session: None }
    }
}

// === impl Chain ===

impl Chain {
    /// A request that comes whatever the others do.
    pub(super) fn single(start: Duration, turn: Turn) -> Self {
        Self { start, turns: vec![turn] }
    }
}

// === impl Text ===

impl Text {
    pub(super) const fn new(number: u64, tokens: usize) -> Self {
        Self { number, tokens }
    }

    pub(super) fn append_to(self, tokens: &mut Vec<TokenId>) {
        let start = mix(self.number);
        let ids = (0..self.tokens as u64)
            .map(|place| FIRST_TEXT_ID + (mix(start.wrapping_add(place)) % u64::from(TEXT_IDS)) as TokenId);
        tokens.extend(ids);
    }
}
