//! Tokens a second.

use std::time::Duration;

use super::Sequence;

/// A speed; zero stands for work that takes no time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate(u64);

/// How long one token of every running sequence takes: a time of its own, and the time to read their contexts.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecodeSpeed {
    steps: Rate,
    context: Rate,
}

// === impl Rate ===

impl Rate {
    pub(super) const fn new(tokens_per_second: u64) -> Self {
        Self(tokens_per_second)
    }

    /// How long so many tokens take.
    pub(super) fn time_for(self, tokens: usize) -> Duration {
        match self.0 {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(tokens as f64 / rate as f64),
        }
    }
}

// === impl DecodeSpeed ===

impl DecodeSpeed {
    pub(super) const fn new(steps_per_second: u64, context_per_second: u64) -> Self {
        Self { steps: Rate::new(steps_per_second), context: Rate::new(context_per_second) }
    }

    /// How long a step of these sequences takes.
    pub(super) fn step(self, running: &[Sequence]) -> Duration {
        let context = running.iter().map(|sequence| sequence.chain.len()).sum();
        self.steps.time_for(1) + self.context.time_for(context)
    }
}
