//! Generated token ids in a response: what is done with them, and where they stand once they are read.

use std::ops::Range;

use kvroute_core::TokenId;

/// What happens to the token ids of a response: those of choices and of the prompt, and those in `engine_data`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenIds {
    /// Nobody here wants them: they pass unread.
    #[default]
    Ignore,
    /// Generated ones are read. The client asked for what stands there, so every byte passes.
    Read,
    /// Generated ones are read, and the client gets what the engine would have sent without the question: no list, and no
    /// chunk that only carries ids.
    Withhold(Unasked),
}

/// What an engine writes in the place of token ids that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// The members are there, and null.
    Null,
    /// The members are not there.
    Absent,
}

/// Where the ids of an [`Observation::Generated`](crate::Observation::Generated) stand in the list that came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSpan {
    start: usize,
    end: usize,
}

// === impl TokenIds ===

impl TokenIds {
    pub(crate) const fn are_read(self) -> bool {
        !matches!(self, Self::Ignore)
    }
}

// === impl TokenSpan ===

impl TokenSpan {
    /// The ids, out of [`StreamScanner::token_ids`](crate::StreamScanner::token_ids) or
    /// [`BodyScan::token_ids`](crate::BodyScan::token_ids); none out of another list that is too short.
    pub fn of(self, token_ids: &[TokenId]) -> &[TokenId] {
        token_ids.get(self.start..self.end).unwrap_or_default()
    }

    /// How many they are.
    pub const fn count(self) -> usize {
        self.end - self.start
    }
}

impl From<Range<usize>> for TokenSpan {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end.max(range.start) }
    }
}
