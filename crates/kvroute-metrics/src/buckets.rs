//! Bucket bounds of the histograms.
//!
//! The token and time bounds are spaced evenly on a log scale, rounded to two significant digits, with a
//! leading zero; they are written out because dashboards depend on the very numbers. The regular series are
//! computed.

/// Prompt lengths, tokens.
pub(crate) const INPUT_TOKENS: &[f64] =
    &[0.0, 100.0, 210.0, 430.0, 870.0, 1800.0, 3600.0, 7400.0, 15000.0, 31000.0, 63000.0, 130_000.0];

/// Response lengths, tokens.
pub(crate) const OUTPUT_TOKENS: &[f64] =
    &[0.0, 100.0, 210.0, 430.0, 880.0, 1800.0, 3700.0, 7600.0, 16000.0, 32000.0];

/// Times to the first token, seconds.
pub(crate) const FIRST_TOKEN_SECONDS: &[f64] = &[
    0.0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1.0, 2.2, 4.7, 10.0, 22.0, 48.0, 100.0, 220.0,
    480.0,
];

/// Times between tokens, seconds.
pub(crate) const INTER_TOKEN_SECONDS: &[f64] =
    &[0.0, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2.0];

/// Durations of the stages of a request, seconds.
pub(crate) const STAGE_SECONDS: &[f64] = &[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0];

/// Time that the router adds, seconds: 10 µs to 1 s.
pub(crate) const ADDED_LATENCY_SECONDS: &[f64] = &[
    0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5,
    1.0,
];

/// Times in the queue, seconds.
pub(crate) const QUEUE_WAIT_SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// Shares of a prompt: 0 to 1 in steps of 0.05.
pub(crate) const SHARES: &[f64] = &steps::<21>(20.0);

/// Weighted blocks lost by a selection: 0.25 × 2^k.
pub(crate) const BLOCKS_LOST: &[f64] = &powers::<16>(2, 4.0);

/// Hashing, milliseconds: 0.001 × 2^k.
pub(crate) const HASHING_MS: &[f64] = &powers::<15>(2, 1000.0);

/// Parts of a decision, milliseconds: 0.01 × 3^k.
pub(crate) const DECISION_MS: &[f64] = &powers::<17>(3, 100.0);

/// `0 / divisor, 1 / divisor, …`: each bound rounded once, so that it prints as it is meant.
const fn steps<const N: usize>(divisor: f64) -> [f64; N] {
    let mut bounds = [0.0; N];
    let mut index = 0;
    while index < N {
        bounds[index] = index as f64 / divisor;
        index += 1;
    }
    bounds
}

/// `base^0 / divisor, base^1 / divisor, …`: each bound rounded once.
const fn powers<const N: usize>(base: u64, divisor: f64) -> [f64; N] {
    let mut bounds = [0.0; N];
    let mut power = 1;
    let mut index = 0;
    while index < N {
        bounds[index] = power as f64 / divisor;
        power *= base;
        index += 1;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zero, then `count - 1` bounds from just above `min` to `max`, evenly on a log scale.
    fn log_spaced(min: f64, max: f64, count: u32) -> Vec<f64> {
        let ratio = (max / min).powf(1.0 / f64::from(count - 1));
        let two_digits = |value: f64| format!("{value:.1e}").parse::<f64>().unwrap();
        let bounds = (1..count).map(|index| two_digits(min * ratio.powi(index as i32)));
        std::iter::once(0.0).chain(bounds).collect()
    }

    #[test]
    fn the_written_out_bounds_are_log_spaced_to_two_digits() {
        assert_eq!(INPUT_TOKENS, log_spaced(50.0, 128_000.0, 12));
        assert_eq!(OUTPUT_TOKENS, log_spaced(50.0, 32_000.0, 10));
        assert_eq!(FIRST_TOKEN_SECONDS, log_spaced(0.001, 480.0, 18));
        assert_eq!(INTER_TOKEN_SECONDS, log_spaced(0.001, 2.0, 13));
    }

    #[test]
    fn the_computed_bounds_print_as_they_are_meant() {
        let text = |bounds: &[f64]| bounds.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(text(&DECISION_MS[..6]), "0.01 0.03 0.09 0.27 0.81 2.43");
        assert_eq!(text(&HASHING_MS[..5]), "0.001 0.002 0.004 0.008 0.016");
        assert_eq!(text(&BLOCKS_LOST[..5]), "0.25 0.5 1 2 4");
        assert_eq!(text(&SHARES[..4]), "0 0.05 0.1 0.15");
        assert_eq!([SHARES.len(), BLOCKS_LOST.len(), HASHING_MS.len(), DECISION_MS.len()], [21, 16, 15, 17]);
        assert_eq!(DECISION_MS[16], 430_467.21);
    }
}
