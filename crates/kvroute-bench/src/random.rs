//! Numbers that look random and are the same in every run: a workload is named by its seed.

/// Steps of a Weyl sequence, each mixed until no bit shows where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

/// The golden ratio in 64 bits: odd, and without a pattern.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The share of draws that answer yes, as one in so many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneIn(pub(crate) usize);

// === impl Random ===

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `end`, which is not zero.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    pub(crate) fn is(&mut self, share: OneIn) -> bool {
        self.below(share.0) == 0
    }

    /// So many numbers.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.next()).collect()
    }
}

/// One number made into another that shows nothing of it; equal numbers stay equal.
pub(crate) const fn mix(number: u64) -> u64 {
    let folded = (number ^ (number >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let folded = (folded ^ (folded >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    folded ^ (folded >> 32)
}
