//! How fast tokens are computed.

use crate::Tokens;

/// Prompt tokens that a rank computes a second: finite and above zero.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct TokensPerSecond(f64);

// === impl TokensPerSecond ===

impl TokensPerSecond {
    /// A measured speed; `None` for what is none: zero, negative or not finite.
    pub fn new(tokens: f64) -> Option<Self> {
        (tokens.is_finite() && tokens > 0.0).then_some(Self(tokens))
    }

    /// The plain number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Time that so many tokens take, in seconds.
    pub fn seconds_for(self, tokens: Tokens) -> f64 {
        tokens.get() as f64 / self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_take_time_by_the_speed_and_no_speed_is_no_number() {
        assert_eq!(TokensPerSecond::new(2000.0).map(|speed| speed.seconds_for(Tokens::new(500))), Some(0.25));
        assert!(
            [0.0, -1.0, f64::NAN, f64::INFINITY].into_iter().all(|odd| TokensPerSecond::new(odd).is_none())
        );
    }
}
