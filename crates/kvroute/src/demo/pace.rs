//! How fast a recorded workload is replayed.

use std::str::FromStr;
use std::time::Duration;

/// Time of the replay against time of the recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    /// So many times as fast.
    Times(f64),
    /// No waiting at all: as fast as the concurrency allows.
    Max,
}

// === impl Pace ===

impl Pace {
    /// When a request that was recorded at `at` is sent, from the start of the replay.
    pub(crate) fn arrival(self, at: Duration) -> Duration {
        match self {
            Self::Times(factor) => at.div_f64(factor),
            Self::Max => Duration::ZERO,
        }
    }

    /// The speed of an engine whose queue shall look as it would at the recorded pace; 0 takes no time.
    pub(crate) fn engine_speed(self, tokens_per_second: u64) -> u64 {
        match self {
            Self::Times(factor) => ((tokens_per_second as f64 * factor) as u64).max(1),
            Self::Max => 0,
        }
    }
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<f64>() {
            _ if text == "max" => Ok(Self::Max),
            Ok(0.0) => Ok(Self::Max),
            Ok(factor) if (0.001..=1_000_000.0).contains(&factor) => Ok(Self::Times(factor)),
            _ => Err("expected a factor such as 10, between 0.001 and 1000000, or max".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_replay_has_earlier_arrivals_and_faster_engines() {
        let pace: Pace = "20".parse().unwrap();
        assert_eq!(pace.arrival(Duration::from_secs(30)), Duration::from_millis(1500));
        assert_eq!(pace.engine_speed(100), 2000);
    }

    #[test]
    fn no_delay_is_spelled_max_or_0() {
        assert_eq!("max".parse(), Ok(Pace::Max));
        assert_eq!("0".parse(), Ok(Pace::Max));
        assert_eq!(Pace::Max.arrival(Duration::from_secs(9)), Duration::ZERO);
        assert_eq!(Pace::Max.engine_speed(100), 0);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["-1", "nan", "inf", "fast", "", "1e-9"] {
            assert!(text.parse::<Pace>().is_err(), "{text}");
        }
    }
}
