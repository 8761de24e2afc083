//! What a history must do to be measured.

use kvroute_core::SequenceHash;
use kvroute_history::History;

use super::plain::PlainHistory;

/// A bounded set of hashes, first in, first out.
pub(crate) trait Remember: Send + Sync + Sized {
    const NAME: &'static str;

    /// Holds so many hashes when it is full.
    fn with_capacity(entries: usize) -> Self;
    /// Leading hashes that are known.
    fn known_prefix(&self, prompt: &[SequenceHash]) -> usize;
    /// A prompt that was computed.
    fn complete(&self, prompt: &[SequenceHash]);
    fn len(&self) -> usize;
}

// === impl History ===

impl Remember for History {
    const NAME: &'static str = "kvroute";

    fn with_capacity(entries: usize) -> Self {
        // About what so many take, and then some until they fit.
        let budgets = (0..).map(|more| 13 * entries + more * (entries / 100 + 64));
        let mut fitting = budgets.map(|bytes| Self::new(bytes, 42));
        fitting
            .find(|history| history.capacity().get() as usize >= entries)
            .unwrap_or_else(|| Self::new(0, 42))
    }

    fn known_prefix(&self, prompt: &[SequenceHash]) -> usize {
        Self::known_prefix(self, prompt).get() as usize
    }

    fn complete(&self, prompt: &[SequenceHash]) {
        self.teach(prompt);
    }

    fn len(&self) -> usize {
        self.resident().get() as usize
    }
}

// === impl PlainHistory ===

impl Remember for PlainHistory {
    const NAME: &'static str = "sets and a queue";

    fn with_capacity(entries: usize) -> Self {
        Self::new(entries)
    }

    fn known_prefix(&self, prompt: &[SequenceHash]) -> usize {
        Self::known_prefix(self, prompt)
    }

    fn complete(&self, prompt: &[SequenceHash]) {
        self.teach(prompt);
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}
