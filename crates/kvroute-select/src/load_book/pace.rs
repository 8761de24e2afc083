//! How fast a rank computes prompts, learned from streams: from its booking, or from the end of the prompt before it,
//! to its first token.
//!
//! The time holds everything that a request waits for, so the speed is what callers see and not what the accelerator
//! could do. Prompts of a few uncached tokens are left out: their time is that of the network.

use std::time::Duration;

use kvroute_core::{Tokens, TokensPerSecond};

/// Assumed until enough was seen: what accelerators do with small models. Taken too fast, a rank gets more than it can
/// start at once and queues by itself; taken too slow, requests would wait for nothing.
const ASSUMED: f64 = 10_000.0;

/// Prompts below this size say more about the network than about the rank.
const SMALLEST: Tokens = Tokens::new(64);

/// Tokens that must have been seen before the speed is believed.
const ENOUGH: f64 = 2048.0;

/// What each further prompt leaves of what the ones before it showed.
const KEPT: f64 = 0.95;

/// Longest time that one prompt is thought to take.
const LONGEST: Duration = Duration::from_secs(600);

/// Prompt tokens and the time they took, the older the less they count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    tokens: f64,
    seconds: f64,
    last_end: Duration,
}

// === impl Pace ===

impl Pace {
    /// A prompt that was booked then is computed now.
    pub(super) fn computed(&mut self, prompt: Tokens, booked_at: Duration, now: Duration) {
        let started = booked_at.max(self.last_end);
        self.last_end = self.last_end.max(now);
        let took = now.saturating_sub(started).as_secs_f64();
        if prompt >= SMALLEST && took > 0.0 {
            self.tokens = KEPT * self.tokens + prompt.get() as f64;
            self.seconds = KEPT * self.seconds + took;
        }
    }

    /// Tokens a second; `None` before enough was seen.
    pub(super) fn tokens_a_second(&self) -> Option<TokensPerSecond> {
        if self.tokens < ENOUGH {
            return None;
        }
        TokensPerSecond::new(self.tokens / self.seconds)
    }

    /// How many tokens are computed in such a time.
    pub(super) fn tokens_in(&self, time: Duration) -> Tokens {
        Tokens::new((time.as_secs_f64() * self.believed()) as u64)
    }

    /// How long so many tokens take.
    pub(super) fn time_of(&self, tokens: Tokens) -> Duration {
        let seconds = tokens.get() as f64 / self.believed();
        Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST).min(LONGEST)
    }

    fn believed(&self) -> f64 {
        self.tokens_a_second().map_or(ASSUMED, TokensPerSecond::get)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_prompt_that_waited_for_another_took_the_time_behind_it() {
        let mut pace = Pace::default();
        assert_eq!(pace.time_of(Tokens::new(10_000)), Duration::from_secs(1));
        pace.computed(Tokens::new(2000), millis(0), millis(1000));
        assert_eq!(pace.tokens_a_second(), None);
        pace.computed(Tokens::new(2000), millis(0), millis(2000));
        assert!((pace.tokens_a_second().unwrap().get() - 2000.0).abs() < 1e-6);
        assert_eq!(pace.time_of(Tokens::new(500)), millis(250));
    }

    #[test]
    fn prompts_that_were_cached_say_nothing() {
        let mut pace = Pace::default();
        pace.computed(Tokens::new(4000), millis(0), millis(1000));
        for turn in 1..50 {
            pace.computed(Tokens::new(16), millis(1000 * turn), millis(1000 * turn + 50));
        }
        assert_eq!(pace.tokens_a_second(), TokensPerSecond::new(4000.0));
    }

    #[test]
    fn no_prompt_takes_forever() {
        assert_eq!(Pace::default().time_of(Tokens::new(u64::MAX)), LONGEST);
    }
}
