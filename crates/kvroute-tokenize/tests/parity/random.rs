//! Random choices from a fixed seed: a failure comes again.

/// A generator of random numbers (SplitMix64).
pub(crate) struct Dice(u64);

// === impl Dice ===

impl Dice {
    /// A generator for one use.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the choices.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// Any character, most of them from the scripts in use.
    pub(crate) fn character(&mut self) -> char {
        let last = [0x7f, 0x2ff, 0xfff, 0x2_fff, 0x2_fff, 0x1_ffff, 0x10_ffff][self.below(7)];
        loop {
            if let Some(character) = char::from_u32((self.next() % (last + 1)) as u32) {
                return character;
            }
        }
    }
}
