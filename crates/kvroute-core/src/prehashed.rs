//! Maps whose keys are hashes already.
//!
//! Sequence hashes are uniform. Engine hashes are opaque and may as well be small numbers, so one widening
//! multiplication spreads them over the bits that a hash table reads; anything stronger costs more than the
//! table's own work.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys hash themselves as one `u64`.
pub type PrehashedMap<K, V> = HashMap<K, V, BuildHasherDefault<FoldHasher>>;

/// Folds each `u64` into the state by one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldHasher(u64);

/// Odd, and with bits all over.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

// === impl FoldHasher ===

impl Hasher for FoldHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * u128::from(SPREAD);
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn small_numbers_and_high_bits_reach_the_low_bits() {
        let hash = |value: u64| BuildHasherDefault::<FoldHasher>::default().hash_one(value);
        for shift in [0, 32, 48] {
            let low_bits: HashSet<u64> = (0..256).map(|number| hash(number << shift) & 0xFFF).collect();
            assert!(low_bits.len() > 200, "{} of 256 at shift {shift}", low_bits.len());
        }
    }
}
