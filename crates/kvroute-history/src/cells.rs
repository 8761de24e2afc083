//! Memory in cache lines, without `unsafe`.

use crate::line::CELLS;
use crate::sync::{AtomicU64, zeroed};

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// So many groups of eight words, each at the beginning of a cache line: one word less than a line may stand before the first.
#[derive(Debug)]
pub(crate) struct Cells {
    words: Box<[AtomicU64]>,
    first: usize,
}

// === impl Cells ===

impl Cells {
    pub(crate) fn new(lines: usize) -> Self {
        let words: Box<[AtomicU64]> = zeroed(Self::words(lines));
        let aligned = words.as_ptr().align_offset(CACHE_LINE);
        // Only slower, if an allocator gave what cannot be aligned.
        let first = if aligned < CELLS { aligned } else { 0 };
        Self { words, first }
    }

    /// Words that so many lines take.
    pub(crate) const fn words(lines: usize) -> usize {
        lines * CELLS + CELLS - 1
    }

    #[inline]
    pub(crate) fn lines(&self) -> &[[AtomicU64; CELLS]] {
        self.words[self.first..].as_chunks().0
    }

    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        size_of_val(&*self.words)
    }
}

const _: () = assert!(CELLS * size_of::<u64>() == CACHE_LINE);
