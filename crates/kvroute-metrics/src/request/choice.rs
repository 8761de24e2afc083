//! Pace of each choice of a streamed response.

use std::time::Duration;

use kvroute_core::Tokens;

/// Times and tokens of every choice that was seen.
#[derive(Debug)]
pub(crate) struct Choices {
    expected: u32,
    seen: Vec<Choice>,
    is_untouched: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    first: Duration,
    last: Duration,
    chunks: u64,
    ids: u64,
}

/// Choices with their own pace. An index at or above it comes from a response that nobody asked for.
const LARGEST_INDEX: u32 = 1024;

// === impl Choices ===

impl Choices {
    pub(crate) fn new(expected: u32) -> Self {
        Self { expected, seen: Vec::new(), is_untouched: true }
    }

    /// True until the first chunk.
    pub(crate) fn is_untouched(&self) -> bool {
        self.is_untouched
    }

    pub(crate) fn chunks(&mut self, index: u32, count: u64, at: Duration) {
        self.is_untouched = false;
        let Some(choice) = self.choice(index) else { return };
        if choice.chunks == 0 {
            choice.first = at;
        }
        choice.last = at;
        choice.chunks += count;
    }

    pub(crate) fn token_ids(&mut self, index: u32, count: u64) {
        if let Some(choice) = self.choice(index) {
            choice.ids += count;
        }
    }

    /// Mean seconds between the tokens of each choice that had at least two. The engine's count sums over
    /// choices, so that it says something about the pace of a single one only.
    pub(crate) fn inter_token_seconds(&self, completion: Option<Tokens>) -> impl Iterator<Item = f64> {
        let usage = completion.filter(|_| self.expected <= 1).map(Tokens::get);
        self.seen.iter().filter_map(move |choice| choice.inter_token_seconds(usage))
    }

    /// Tokens of all choices, as far as they can be told without the engine's count.
    pub(crate) fn tokens(&self) -> Tokens {
        self.seen.iter().map(|choice| Tokens::new(choice.tokens(None))).sum()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }

    fn choice(&mut self, index: u32) -> Option<&mut Choice> {
        if index >= self.expected.clamp(1, LARGEST_INDEX) {
            return None;
        }
        let position = index as usize;
        if self.seen.len() <= position {
            self.seen.resize(position + 1, Choice::default());
        }
        self.seen.get_mut(position)
    }
}

// === impl Choice ===

impl Choice {
    /// From ids, or the engine's count of this choice, or one a chunk.
    fn tokens(&self, usage: Option<u64>) -> u64 {
        if self.ids > 0 {
            return self.ids;
        }
        usage.unwrap_or(self.chunks)
    }

    fn inter_token_seconds(&self, usage: Option<u64>) -> Option<f64> {
        let tokens = self.tokens(usage);
        if self.chunks == 0 || tokens < 2 {
            return None;
        }
        let elapsed = self.last.saturating_sub(self.first);
        Some(elapsed.as_secs_f64() / (tokens - 1) as f64)
    }
}
