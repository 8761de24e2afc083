//! How often something may happen: so many times in a second or a minute, and so many of them at once.
//!
//! A meter is one number, the time at which everything admitted so far would be paid for at an even pace. Nothing is
//! refilled in the background, and the rule is a function of that number and of the time.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// So many in a time, of which so many may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: NonZeroU32,
    unit: Unit,
    burst: NonZeroU32,
}

/// Counts what comes against a rate. Shared by all who come.
#[derive(Debug)]
pub(crate) struct Meter {
    rate: Rate,
    epoch: Instant,
    /// Nanoseconds behind the epoch.
    paid_until: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
}

// === impl Rate ===

impl Rate {
    /// What a rate looks like.
    pub const EXPECTED: &'static str = "a rate such as 10/s or 600/m, with the number that may come at once behind it where that is another: 10/s,burst=40";

    /// Whether one more may come at `now`, both in nanoseconds: what is paid for then, or how long to wait.
    fn admit(&self, paid_until: u64, now: u64) -> Result<u64, u64> {
        let pace = self.pace();
        let tolerated = pace * u64::from(self.burst.get() - 1);
        let earliest = paid_until.saturating_sub(tolerated);
        if now < earliest { Err(earliest - now) } else { Ok(paid_until.max(now) + pace) }
    }

    /// Nanoseconds between two at an even pace.
    fn pace(&self) -> u64 {
        let unit: u64 = match self.unit {
            Unit::Second => 1_000_000_000,
            Unit::Minute => 60_000_000_000,
        };
        (unit / u64::from(self.count.get())).max(1)
    }
}

impl FromStr for Rate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (rate, burst) = match text.split_once(',') {
            None => (text, None),
            Some((rate, rest)) => (rate, Some(rest.trim().strip_prefix("burst=").ok_or(Self::EXPECTED)?)),
        };
        let (count, unit) = rate.trim().split_once('/').ok_or(Self::EXPECTED)?;
        let number = |digits: &str| digits.parse::<NonZeroU32>().map_err(|_| Self::EXPECTED);
        let count = number(count)?;
        let unit = match unit {
            "s" => Unit::Second,
            "m" => Unit::Minute,
            _ => return Err(Self::EXPECTED),
        };
        Ok(Self { count, unit, burst: burst.map_or(Ok(count), number)? })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Second => "s",
            Unit::Minute => "m",
        };
        write!(f, "{}/{unit},burst={}", self.count, self.burst)
    }
}

// === impl Meter ===

impl Meter {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, epoch: Instant::now(), paid_until: AtomicU64::new(0) }
    }

    pub(crate) const fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes one more, or says how long to wait for it.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), Duration> {
        let now = u64::try_from(now.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX);
        let mut paid_until = self.paid_until.load(Ordering::Relaxed);
        loop {
            let after = self.rate.admit(paid_until, now).map_err(Duration::from_nanos)?;
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match self.paid_until.compare_exchange_weak(paid_until, after, success, failure) {
                Ok(_) => return Ok(()),
                Err(actual) => paid_until = actual,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rate(text: &str) -> Rate {
        text.parse().unwrap()
    }

    /// How many of a crowd that comes at `now` are let in, and how long the next one has to wait.
    fn crowd(rate: Rate, paid_until: &mut u64, now: u64) -> (u32, u64) {
        let mut admitted = 0;
        loop {
            match rate.admit(*paid_until, now) {
                Ok(after) => *paid_until = after,
                Err(wait) => return (admitted, wait),
            }
            admitted += 1;
        }
    }

    #[test]
    fn a_crowd_gets_its_burst_and_then_the_even_pace() {
        let mut paid_until = 0;
        let rate = rate("10/s,burst=4");
        assert_eq!(crowd(rate, &mut paid_until, 0), (4, SECOND / 10));
        assert_eq!(crowd(rate, &mut paid_until, SECOND / 10 - 1), (0, 1));
        assert_eq!(crowd(rate, &mut paid_until, SECOND / 10), (1, SECOND / 10));
        assert_eq!(crowd(rate, &mut paid_until, SECOND / 2), (4, SECOND / 10), "never more than the burst");
        assert_eq!(crowd(rate, &mut paid_until, 100 * SECOND), (4, SECOND / 10));
    }

    #[test]
    fn without_a_burst_of_its_own_all_of_a_unit_may_come_at_once() {
        let mut paid_until = 0;
        assert_eq!(crowd(rate("30/m"), &mut paid_until, 0), (30, 2 * SECOND));
        assert_eq!(crowd(rate("30/m"), &mut paid_until, 60 * SECOND), (30, 2 * SECOND));
    }

    #[test]
    fn over_a_long_time_no_more_come_than_the_rate_and_one_burst() {
        let mut paid_until = 0;
        let admitted: u32 =
            (0..1000).map(|step| crowd(rate("7/s,burst=3"), &mut paid_until, step * SECOND / 100).0).sum();
        assert_eq!(admitted, 3 + 69);
    }

    #[test]
    fn what_is_no_rate_is_refused_and_what_is_one_is_written_as_it_is_read() {
        for text in ["10/s,burst=40", "600/m,burst=600", "1/s,burst=1"] {
            assert_eq!(rate(text).to_string(), text);
        }
        assert_eq!(rate("10/s"), rate("10/s,burst=10"));
        for text in
            ["", "10", "10/h", "0/s", "-1/s", "1.5/s", "10/s,40", "10/s,burst=0", "/s", "10/s;burst=1"]
        {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_meter_that_many_share_lets_in_no_more_than_its_rate() {
        let meter = std::sync::Arc::new(Meter::new(rate("5/s")));
        let now = Instant::now();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let meter = std::sync::Arc::clone(&meter);
                std::thread::spawn(move || (0..100).filter(|_| meter.admit(now).is_ok()).count())
            })
            .collect();
        let admitted: usize = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(admitted, 5);
        assert_eq!(meter.admit(now), Err(Duration::from_millis(200)));
        assert_eq!(meter.admit(now + Duration::from_millis(200)), Ok(()));
    }
}
