//! A small mixing function (the finalizer of SplitMix64): block ids and word choice need spread bits and
//! repeatability, nothing more, and must not lean on the router's own hash.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads every bit of the input over the output; a bijection.
pub(crate) const fn spread(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Folds one more value into a running state.
pub(crate) const fn fold(state: u64, value: u64) -> u64 {
    spread(state.wrapping_add(STEP) ^ spread(value.wrapping_add(STEP)))
}
