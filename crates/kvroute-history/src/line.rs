//! One cache line of the index: fifteen slots, and a word that counts who stands behind it.
//!
//! A slot says in which line of the queue a hash is to be looked for, and carries a mark of the hash, so that other hashes of
//! the same line are seldom taken for it. It is a hint: what it leads to is compared with the hash itself. So a reader needs
//! no proof that a line did not change while it was read; all that has to hold is that a slot stands still while its hash is
//! resident.

use crate::sync::{AtomicU64, Ordering};

/// Words of a line.
pub(crate) const CELLS: usize = 8;

/// Hashes that fit into a line. The sixteenth half of a word counts.
#[cfg(test)]
pub(crate) const SLOTS: usize = 2 * CELLS - 1;

/// The half word that holds no slot, among the bits of [`Line::equal`].
const COUNTERS_HALF: u64 = 1;

const HIGHEST_BITS: u64 = 0x8000_0000_8000_0000;

/// The lower half of the first word are counters. Marks have eight of them, so that a line which one hash passed is passed
/// by few of the others.
const COUNTERS: u32 = 8;
const COUNTER_BITS: u32 = 4;
const FULL: u64 = (1 << COUNTER_BITS) - 1;

/// A line, borrowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    cells: &'a [AtomicU64; CELLS],
}

/// A mark, and which bits of a slot are one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) mark: u32,
    pub(crate) bits: u32,
}

// === impl Line ===

impl<'a> Line<'a> {
    #[inline]
    pub(crate) const fn of(cells: &'a [AtomicU64; CELLS]) -> Self {
        Self { cells }
    }

    /// Brings the line near. What it gives means nothing, but that it was read.
    #[inline]
    pub(crate) fn touch(self) -> u64 {
        self.cells[0].load(Ordering::Relaxed)
    }

    /// The first slot with this mark for which something is found.
    #[inline]
    pub(crate) fn find<T>(self, mark: Mark, mut found: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let mut equal = self.equal(mark.mark, mark.bits);
        while equal != 0 {
            let (cell, shift) = self.half(equal);
            if let Some(found) = found((cell.load(Ordering::Acquire) >> shift) as u32 & !mark.bits) {
                return Some(found);
            }
            equal &= equal - 1;
        }
        None
    }

    /// A bit for each slot that is equal to this one in these bits: bit `i` for the lower half of word `i`, bit `32 + i` for
    /// its upper half. All slots are compared, for where the search ends is what no processor foresees.
    #[inline]
    fn equal(self, slot: u32, bits: u32) -> u64 {
        let mut equal = 0;
        for (number, cell) in self.cells.iter().enumerate() {
            let differing = (cell.load(Ordering::Acquire) ^ twice(slot)) & twice(bits);
            equal |= zero_halves(differing) >> (31 - number);
        }
        equal & !COUNTERS_HALF
    }

    /// Where the first of some slots stands, and how far above the lowest bit.
    #[inline]
    fn half(self, equal: u64) -> (&'a AtomicU64, u32) {
        let bit = equal.trailing_zeros();
        (&self.cells[bit as usize % CELLS], bit & 32)
    }

    /// True if a hash with this mark may stand behind this line though its home is here or before.
    #[inline]
    pub(crate) fn was_passed(self, mark: Mark) -> bool {
        self.cells[0].load(Ordering::Acquire) & FULL << counter(mark) != 0
    }
}

/// For the one writer whose turn it is.
impl Line<'_> {
    /// Puts a slot where none is; false if the line is full.
    pub(crate) fn put(self, slot: u32) -> bool {
        self.replace(0, slot)
    }

    /// Takes one such slot away; false if there is none.
    pub(crate) fn take(self, slot: u32) -> bool {
        self.replace(slot, 0)
    }

    fn replace(self, old: u32, new: u32) -> bool {
        let equal = self.equal(old, u32::MAX);
        if equal == 0 {
            return false;
        }
        let (cell, shift) = self.half(equal);
        let word = cell.load(Ordering::Relaxed);
        cell.store(word ^ u64::from(old ^ new) << shift, Ordering::Release);
        true
    }

    /// Counts one that stands behind. A counter that is full stays so: the line is then passed by more than need to.
    pub(crate) fn count(self, mark: Mark) {
        let word = self.cells[0].load(Ordering::Relaxed);
        if word >> counter(mark) & FULL != FULL {
            self.cells[0].store(word + (1 << counter(mark)), Ordering::Release);
        }
    }

    pub(crate) fn count_no_more(self, mark: Mark) {
        let word = self.cells[0].load(Ordering::Relaxed);
        if word >> counter(mark) & FULL != FULL {
            self.cells[0].store(word - (1 << counter(mark)), Ordering::Release);
        }
    }

    pub(crate) fn clear(self) {
        for cell in self.cells.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0) {
            cell.store(0, Ordering::Release);
        }
    }
}

/// Equal marks have one counter: their slots may be taken for each other.
#[inline]
const fn counter(mark: Mark) -> u32 {
    COUNTER_BITS * ((mark.mark >> mark.bits.trailing_zeros()) % COUNTERS)
}

#[inline]
const fn twice(half: u32) -> u64 {
    (half as u64) << 32 | half as u64
}

/// The highest bit of each half that is zero.
#[inline]
const fn zero_halves(word: u64) -> u64 {
    let lower = !HIGHEST_BITS;
    !(((word & lower) + lower) | word) & HIGHEST_BITS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BITS: u32 = 0xFF00_0000;

    fn cells() -> [AtomicU64; CELLS] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    fn mark_of(slot: u32) -> Mark {
        Mark { mark: slot & BITS, bits: BITS }
    }

    fn all(line: Line<'_>, slot: u32) -> Vec<u32> {
        let mut found = Vec::new();
        line.find(mark_of(slot), |place| {
            found.push(place);
            None::<()>
        });
        found
    }

    #[test]
    fn a_line_holds_fifteen_slots() {
        let cells = cells();
        let line = Line::of(&cells);
        for slot in 1..=15 {
            assert!(line.put(0x0100_0000 + slot));
        }
        assert!(!line.put(0x0100_0000));
        assert_eq!(all(line, 0x0100_0000), (1..=15).collect::<Vec<_>>());
        assert!(line.take(0x0100_0007) && !line.take(0x0100_0007) && line.put(0x0200_0000));
    }

    #[test]
    fn only_marks_of_one_counter_share_it() {
        let cells = cells();
        let line = Line::of(&cells);
        line.count(mark_of(0x0500_0000));
        let passed = (1..17u32).filter(|mark| line.was_passed(mark_of(mark << 24))).collect::<Vec<_>>();
        assert_eq!(passed, [5, 13]);
        assert!(line.put(0x0500_0000));
        line.count_no_more(mark_of(0x0D00_0000));
        assert!(!line.was_passed(mark_of(0x0500_0000)));
        assert_eq!(all(line, 0x0500_0000), [0]);
    }

    #[test]
    fn a_counter_that_overflowed_is_never_believed_again() {
        let cells = cells();
        let line = Line::of(&cells);
        let (one, next) = (mark_of(0x0100_0000), mark_of(0x0200_0000));
        (0..20).for_each(|_| line.count(one));
        (0..20).for_each(|_| line.count_no_more(one));
        assert!(line.was_passed(one) && !line.was_passed(next));
        line.clear();
        assert!(!line.was_passed(one));
    }

    proptest! {
        #[test]
        fn what_was_put_and_not_taken_is_found(
            steps in prop::collection::vec((any::<bool>(), prop_oneof![Just(0x0100_0000u32), Just(0xFF00_0000), Just(0x7F00_0000)], 0u32..4), 0..60),
        ) {
            let cells = cells();
            let line = Line::of(&cells);
            let mut model: Vec<u32> = Vec::new();
            for (is_put, mark, place) in steps {
                let slot = mark | place;
                if is_put {
                    prop_assert_eq!(line.put(slot), model.len() < SLOTS);
                    if model.len() < SLOTS { model.push(slot); }
                } else {
                    let known = model.iter().position(|known| *known == slot);
                    prop_assert_eq!(line.take(slot), known.is_some());
                    known.map(|known| model.swap_remove(known));
                }
                let mut found = all(line, mark);
                found.sort_unstable();
                let mut expected: Vec<u32> =
                    model.iter().filter(|slot| *slot & BITS == mark).map(|slot| slot & !BITS).collect();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
