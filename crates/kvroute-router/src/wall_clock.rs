//! When something was, by the clock on the wall: for people, and for what outlives the process.
//!
//! That clock jumps, by hours where a machine is resumed or its time is set. So nothing that lasts is measured by it (that is
//! what `tokio::time::Instant` is for), it is read here and nowhere else in this crate, and whatever it says, no time is
//! negative and none is an error.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since the Unix epoch.
pub(crate) fn since_epoch() -> Duration {
    between(UNIX_EPOCH, SystemTime::now())
}

/// How long ago it was. A clock that was set back makes it as good as new.
pub(crate) fn age_of(moment: SystemTime) -> Duration {
    between(moment, SystemTime::now())
}

/// Milliseconds since the Unix epoch.
pub(crate) fn unix_millis() -> u64 {
    u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX)
}

fn between(earlier: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(earlier).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Moments from long before the epoch to long behind it.
    fn moment() -> impl Strategy<Value = SystemTime> {
        let seconds = prop_oneof![-100_000_000_000_i64..100_000_000_000, -20_000_i64..20_000];
        (seconds, 0_u32..1_000_000_000).prop_map(|(seconds, nanos)| {
            let distance = Duration::new(seconds.unsigned_abs(), nanos);
            if seconds < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
        })
    }

    proptest! {
        #[test]
        fn no_time_is_negative_whatever_the_clock_does_between_two_looks(
            first in moment(), jump in -1_000_000_i64..1_000_000,
        ) {
            let distance = Duration::from_secs(jump.unsigned_abs());
            let second = if jump < 0 { first - distance } else { first + distance };
            let expected = if jump < 0 { Duration::ZERO } else { distance };
            prop_assert_eq!(between(first, second), expected);
        }
    }

    #[test]
    fn what_was_written_in_the_future_is_new() {
        let hours = Duration::from_secs(5 * 3600);
        assert_eq!(age_of(SystemTime::now() + hours), Duration::ZERO);
        assert!(age_of(SystemTime::now() - hours) >= hours);
    }
}
