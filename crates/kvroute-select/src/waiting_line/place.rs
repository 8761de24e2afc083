//! Where one stands: a total order that never changes while one waits.

use std::cmp::Reverse;
use std::time::Duration;

use kvroute_core::Tokens;

/// A prompt of this length lets others pass for half of the patience. Prompts of a chat are shorter and agents' are
/// longer, so that the patience tells both from their like.
const HALF_PATIENCE: Tokens = Tokens::new(8192);

/// The order of these is the order of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    priority: Reverse<i32>,
    /// Nobody of the same priority who arrives later than this stands before it.
    due: Duration,
    /// Who joined first.
    number: u64,
}

// === impl Place ===

impl Place {
    /// The place of one who joins as the `number`th.
    pub(super) const fn new(priority: i32, due: Duration, number: u64) -> Self {
        Self { priority: Reverse(priority), due, number }
    }
}

/// How long a prompt with so much to compute lets shorter ones pass: more with every token, and less than `patience`.
pub(super) fn yielding(uncached: Tokens, patience: Duration) -> Duration {
    let tokens = u128::from(uncached.get());
    let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let nanos = u128::from(patience) * tokens / (tokens + u128::from(HALF_PATIENCE.get()));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
