//! A memory of recent work, fading by half in a fixed time.
//!
//! Work in flight says nothing about a fleet whose requests come one by one: it is zero at every decision, and whoever
//! was warmest first stays so. What a rank was given lately tells a favourite from the others even then.
//!
//! A decision among a thousand ranks needs a thousand of these, so none of them is aged by itself. New work is written
//! down in a unit that grows as fast as memories fade; what is there fades by not growing with it, and one factor turns
//! all of it into tokens.

use std::time::Duration;

use kvroute_core::Tokens;

/// The time in which a memory halves: long enough that a fleet with a request every few seconds has one, short enough
/// that a rank that joined is a rank like all others within the hour.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// Half-lives after which the unit starts small again: far before a sum of any fleet's tokens is no number any more.
const RENEWED_AFTER: f64 = 256.0;

/// Tokens that a rank was given to compute, in units of [`Fading`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentWork(f64);

/// The unit of all memories of a book. The clock never runs backwards; where it seems to, nothing ages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fading {
    since: Duration,
}

/// What turns the units of one moment into tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faded(f64);

// === impl Fading ===

impl Fading {
    /// The factor of this moment.
    pub(super) fn at(&self, now: Duration) -> Faded {
        Faded((-self.half_lives(now)).exp2())
    }

    /// Starts with a small unit again if it is time to: memories must then be [`RecentWork::renew`]ed by what this
    /// gives.
    pub(super) fn renew(&mut self, now: Duration) -> Option<Faded> {
        if self.half_lives(now) < RENEWED_AFTER {
            return None;
        }
        let faded = self.at(now);
        self.since = now;
        Some(faded)
    }

    fn half_lives(&self, now: Duration) -> f64 {
        now.saturating_sub(self.since).as_secs_f64() / HALF_LIFE.as_secs_f64()
    }
}

// === impl RecentWork ===

impl RecentWork {
    /// Adds work of this moment.
    pub(super) fn add(&mut self, tokens: Tokens, faded: Faded) {
        self.0 += tokens.get() as f64 / faded.0;
    }

    /// Takes back what was added at the moment of that factor.
    pub(super) fn take_back(&mut self, tokens: Tokens, faded: Faded) {
        self.0 = (self.0 - tokens.get() as f64 / faded.0).max(0.0);
    }

    /// What is left of it; zero below one token.
    pub(super) fn left(self, faded: Faded) -> Tokens {
        let left = self.0 * faded.0;
        if left < 1.0 { Tokens::ZERO } else { Tokens::new(left.round() as u64) }
    }

    /// The same in the new unit.
    pub(super) fn renew(&mut self, faded: Faded) {
        self.0 *= faded.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn work_fades_by_half_and_is_gone_below_one_token() {
        let (fading, mut recent) = (Fading::default(), RecentWork::default());
        recent.add(Tokens::new(1000), fading.at(seconds(7)));
        let left = |recent: &RecentWork, age| recent.left(fading.at(seconds(7) + age * HALF_LIFE)).get();
        assert_eq!([0, 1, 2, 9, 10].map(|age| left(&recent, age)), [1000, 500, 250, 2, 0]);
        recent.add(Tokens::new(100), fading.at(seconds(7) + HALF_LIFE));
        assert_eq!(left(&recent, 2), 300);
    }

    #[test]
    fn years_of_work_stay_a_number() {
        let (mut fading, mut recent) = (Fading::default(), RecentWork::default());
        for minute in 0..1_000_000 {
            let now = seconds(60 * minute);
            if let Some(faded) = fading.renew(now) {
                recent.renew(faded);
            }
            recent.add(Tokens::new(1000), fading.at(now));
            assert!((1000..8000).contains(&recent.left(fading.at(now)).get()));
        }
    }
}
