//! What the client saw.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::index::measure::percentile;

/// What came of all streams.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// In microseconds.
    first: Vec<u32>,
    /// In microseconds.
    between: Vec<u32>,
    whole: usize,
    errors: BTreeMap<String, usize>,
}

/// What came of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// From the request to the first token.
    pub(crate) first: Option<Duration>,
    /// Between one token and the next.
    pub(crate) between: Vec<Duration>,
}

// === impl Record ===

impl Record {
    /// One that ended well.
    pub(crate) fn note(&mut self, seen: &Seen) {
        self.whole += 1;
        self.first.extend(seen.first.map(micros));
        self.between.extend(seen.between.iter().copied().map(micros));
    }

    /// One that did not.
    pub(crate) fn failed(&mut self, error: String) {
        *self.errors.entry(error).or_default() += 1;
    }

    /// All figures in order.
    pub(crate) fn sorted(mut self) -> Self {
        self.first.sort_unstable();
        self.between.sort_unstable();
        self
    }

    /// Seconds to the first token, p50 and p99.
    pub(crate) fn first_token(&self) -> [f64; 2] {
        [0.5, 0.99].map(|share| percentile(&self.first, share) / 1e6)
    }

    /// Seconds between two tokens, p50 and p99.
    pub(crate) fn between_tokens(&self) -> [f64; 2] {
        [0.5, 0.99].map(|share| percentile(&self.between, share) / 1e6)
    }

    /// How many ended well, and of what the others failed.
    pub(crate) fn errors(&self) -> String {
        let failed: usize = self.errors.values().sum();
        let each = self.errors.iter().map(|(error, count)| format!("\n  {count} x {error}"));
        format!("{} whole, {failed} failed{}", self.whole, each.collect::<String>())
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
