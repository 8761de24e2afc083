//! Finds in which line of the queue a hash stands.
//!
//! A slot that finds its hash's home full stands in the next line that is not, round and round. Every line that it passed
//! counts it, so a search stops at the first line that nobody passed.
//!
//! Slots are never moved while their hash is resident, so whoever looks at the same time as somebody writes finds them.
//! Slots that are equal (the same mark, the same line of the queue) are interchangeable: whoever takes one away takes the
//! first on the way from the home of its hash, and if that one was put for another hash, then what remains is what that one
//! needs, slot and counters, because the ways of two hashes are one from where they meet.

use kvroute_core::SequenceHash;

use crate::cells::Cells;
use crate::line::{Line, Mark};
use crate::placement::{Place, Placement};

/// Slots of resident hashes, by their homes.
#[derive(Debug)]
pub(crate) struct Index {
    cells: Cells,
    placement: Placement,
    lines: u32,
}

// === impl Index ===

impl Index {
    /// `queue_lines`: the lines of the queue that slots lead to.
    pub(crate) fn new(lines: usize, queue_lines: usize, seed: u64) -> Self {
        let marks = u32::MAX.checked_shl(usize::BITS - queue_lines.leading_zeros()).unwrap_or(0);
        let placement = Placement::new(seed, lines as u32, marks);
        Self { cells: Cells::new(lines), placement, lines: lines as u32 }
    }

    #[inline]
    fn line(&self, line: u32) -> Line<'_> {
        Line::of(&self.cells.lines()[line as usize])
    }

    const fn behind(&self, line: u32) -> u32 {
        if line + 1 == self.lines { 0 } else { line + 1 }
    }

    #[inline]
    pub(crate) fn place(&self, hash: SequenceHash) -> Place {
        self.placement.of(hash)
    }

    const fn mark(&self, place: Place) -> Mark {
        Mark { mark: place.mark, bits: self.placement.marks() }
    }

    /// Brings the home near, for a later search.
    #[inline]
    pub(crate) fn touch(&self, place: Place) -> u64 {
        self.line(place.home).touch()
    }

    /// Brings the line behind the home near if a search would go on there.
    #[inline]
    pub(crate) fn touch_behind(&self, place: Place) -> u64 {
        match self.line(place.home).was_passed(self.mark(place)) {
            true => self.line(self.behind(place.home)).touch(),
            false => 0,
        }
    }

    /// Asks in one line of the queue after the other, until the hash is found in one. Any thread may search, at any time.
    #[inline]
    pub(crate) fn find<T>(&self, place: Place, mut ask: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let (mark, mut at) = (self.mark(place), place.home);
        loop {
            let line = self.line(at);
            if let Some(found) = line.find(mark, &mut ask) {
                return Some(found);
            }
            if !line.was_passed(mark) {
                return None;
            }
            at = self.behind(at);
            if at == place.home {
                return None;
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn allocated(&self) -> usize {
        self.cells.allocated()
    }
}

/// For the one writer whose turn it is.
impl Index {
    /// Puts a slot for a hash in a line of the queue. There is room: an index has more slots than its queue has hashes.
    pub(crate) fn put(&self, place: Place, queue_line: u32) {
        let (mark, mut at) = (self.mark(place), place.home);
        while !self.line(at).put(place.mark | queue_line) {
            self.line(at).count(mark);
            at = self.behind(at);
        }
    }

    /// Takes away the slot of a hash that was put.
    pub(crate) fn take(&self, place: Place, queue_line: u32) {
        let mark = self.mark(place);
        let mut stands = place.home;
        while !self.line(stands).take(place.mark | queue_line) {
            stands = self.behind(stands);
        }
        let mut at = place.home;
        while at != stands {
            self.line(at).count_no_more(mark);
            at = self.behind(at);
        }
    }

    pub(crate) fn clear(&self) {
        (0..self.lines).for_each(|line| self.line(line).clear());
    }
}
