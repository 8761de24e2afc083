//! Where a hash is looked for: the line that is its home, and the mark that it leaves there.
//!
//! Whoever sends prompts chooses their tokens, and so can search for hashes that would all have one home. Two products with
//! secret multipliers, the halves of each folded, are uniform for whoever does not know the seed, even for hashes in a row,
//! which one product leaves uneven. They decide only about the place: identity stays the 64 bits of the hash.

use kvroute_core::SequenceHash;

/// Spreads hashes over the lines of an index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    change: u64,
    multipliers: [u64; 2],
    lines: u64,
    /// The bits of a slot that hold a mark.
    marks: u32,
}

/// What of a hash the index uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) home: u32,
    /// In the upper bits of a slot, and never zero.
    pub(crate) mark: u32,
}

// === impl Placement ===

impl Placement {
    /// `marks`: the bits of a slot that are the mark's, the uppermost ones.
    pub(crate) const fn new(seed: u64, lines: u32, marks: u32) -> Self {
        let change = scrambled(seed);
        let first = scrambled(change);
        Self { change, multipliers: [first | 1, scrambled(first) | 1], lines: lines as u64, marks }
    }

    #[inline]
    pub(crate) fn of(&self, hash: SequenceHash) -> Place {
        let [first, second] = self.multipliers;
        let mixed = folded(folded(hash.get() ^ self.change, first), second);
        let home = ((u128::from(mixed) * u128::from(self.lines)) >> 64) as u32;
        let mark = mixed as u32 & self.marks;
        // The lowest bit of a mark.
        let least = self.marks & self.marks.wrapping_neg();
        Place { home, mark: if mark == 0 { least } else { mark } }
    }

    pub(crate) const fn marks(&self) -> u32 {
        self.marks
    }
}

/// Both halves of a product, in which each bit depends on about half of the others.
#[inline]
const fn folded(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    (product >> 64) as u64 ^ product as u64
}

/// One step of SplitMix64: seeds that differ in one bit have nothing in common afterwards.
const fn scrambled(seed: u64) -> u64 {
    let sum = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let once = (sum ^ (sum >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    twice ^ (twice >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: u32 = 0xFFC0_0000;

    fn place(seed: u64, lines: u32, hash: u64) -> Place {
        Placement::new(seed, lines, MARKS).of(SequenceHash::from_raw(hash))
    }

    /// Lines that are home to none of as many hashes as there are lines: 1/e of them if the spread is even.
    fn empty_lines(hashes: impl Iterator<Item = u64>, seed: u64, lines: u32) -> usize {
        let mut used = vec![false; lines as usize];
        for hash in hashes {
            used[place(seed, lines, hash).home as usize] = true;
        }
        used.iter().filter(|used| !**used).count()
    }

    #[test]
    fn hashes_that_differ_in_few_bits_are_spread_evenly() {
        for seed in 0..20 {
            for shift in [0, 20, 40, 52] {
                let empty = empty_lines((0..1 << 12).map(|number| number << shift), seed, 1 << 12);
                assert!((1400..1600).contains(&empty), "{empty} lines are empty, seed {seed}, shift {shift}");
            }
        }
    }

    #[test]
    fn another_seed_is_another_place() {
        let same = (0..1000).filter(|hash| place(1, 1 << 20, *hash).home == place(2, 1 << 20, *hash).home);
        assert!(same.count() < 5);
    }

    #[test]
    fn every_line_is_a_home() {
        let mut homes = [0; 3];
        for hash in 0..300 {
            homes[place(7, 3, hash).home as usize] += 1;
        }
        assert!(homes.iter().all(|home| *home > 50), "{homes:?}");
    }

    #[test]
    fn hashes_of_one_home_have_different_marks_that_are_never_zero() {
        let marks: Vec<u32> = (0..20_000).map(|hash| place(3, 1, hash).mark).collect();
        assert!(marks.iter().all(|mark| *mark != 0 && mark & !MARKS == 0));
        let mut different = marks;
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 1023);
    }
}
