//! How a budget of bytes becomes room for hashes.
//!
//! | what | bytes a hash |
//! |---|---|
//! | the hash in the queue | 8 |
//! | its slot in the index: a line of 64 bytes holds 10.9 of the 15 that fit | 5.9 |
//!
//! Some 400 bytes come on top, whatever the size. Fuller lines would be passed by more hashes, which slows down whoever looks
//! for a hash that is not there.

use crate::cells::{CACHE_LINE, Cells};
use crate::history::History;
use crate::queue::Queue;

/// Hashes that a line of the index is home to, in hundredths.
const FILL: usize = 1090;

/// Lines of the index at most: a slot has 28 bits for the line of the queue and at least 4 for a mark.
const MOST_LINES: usize = (1 << 31) / FILL * 100;

/// The shape of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dimensions {
    /// Lines of the index.
    pub(crate) lines: usize,
    /// Hashes that the queue holds at most.
    pub(crate) capacity: usize,
}

// === impl Dimensions ===

impl Dimensions {
    /// The largest history within the budget; one line at least.
    pub(crate) fn within(bytes: usize) -> Self {
        let a_hundred = (100 * CACHE_LINE + FILL * size_of::<u64>()) as u128;
        let lines = bytes.saturating_sub(Self::of_lines(0).bytes()) as u128 * 100 / a_hundred;
        let lines = (lines as usize).min(MOST_LINES);
        // The last line of the queue may be one that is not full.
        let fitting = [lines, lines.saturating_sub(1)].map(Self::of_lines).into_iter();
        let mut fitting = fitting.filter(|dimensions| dimensions.bytes() <= bytes && dimensions.lines > 0);
        fitting.next().unwrap_or_else(|| Self::of_lines(1))
    }

    const fn of_lines(lines: usize) -> Self {
        Self { lines, capacity: lines * FILL / 100 }
    }

    /// All memory that a history of this shape takes.
    pub(crate) const fn bytes(&self) -> usize {
        let words = Cells::words(self.lines) + Cells::words(Queue::lines(self.capacity));
        size_of::<History>() + words * size_of::<u64>()
    }
}
