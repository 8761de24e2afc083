//! Tokens a second.

use std::time::Duration;

/// A speed; zero stands for work that takes no time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate(u64);

// === impl Rate ===

impl Rate {
    pub(super) const fn new(tokens_per_second: u64) -> Self {
        Self(tokens_per_second)
    }

    pub(super) const fn is_instant(self) -> bool {
        self.0 == 0
    }

    /// How long so many tokens take.
    pub(super) fn time_for(self, tokens: usize) -> Duration {
        match self.0 {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(tokens as f64 / rate as f64),
        }
    }
}
