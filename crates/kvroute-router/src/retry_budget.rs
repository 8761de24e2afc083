//! How many requests of a pool may be sent again: a part of what was asked lately, and a few in any case.
//!
//! Where one worker of many fails, every request that it failed finds another one. Where all of them fail, sending each
//! request twice would double the load of a fleet that has trouble enough already. A share tells the two apart by itself.

use std::time::Duration;

use crate::config::RetryConfig;
use crate::window::Window;

/// What the share is taken of.
const WINDOW: Duration = Duration::from_secs(10);

const REQUESTS: usize = 0;
const RETRIES: usize = 1;

/// The requests and retries of the last ten seconds. Pure: time comes in as an argument.
#[derive(Clone, Debug)]
pub(crate) struct RetryBudget {
    window: Window,
}

// === impl RetryBudget ===

impl Default for RetryBudget {
    fn default() -> Self {
        Self { window: Window::new(WINDOW) }
    }
}

impl RetryBudget {
    /// A request is sent for the first time.
    pub(crate) fn asked(&mut self, now: Duration) {
        self.window.count(REQUESTS, now);
    }

    /// Whether one may be sent again.
    pub(crate) fn allows(&mut self, config: &RetryConfig, now: Duration) -> bool {
        let [requests, retries] = self.window.totals(now);
        let allowed = config.share * requests as f64 + config.floor * WINDOW.as_secs_f64();
        (retries + 1) as f64 <= allowed
    }

    /// One is sent again.
    pub(crate) fn resent(&mut self, now: Duration) {
        self.window.count(RETRIES, now);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: RetryConfig = RetryConfig { limit: 2, share: 0.2, floor: 1.0 };

    fn spend(budget: &mut RetryBudget, config: &RetryConfig, now: Duration) -> bool {
        let is_allowed = budget.allows(config, now);
        if is_allowed {
            budget.resent(now);
        }
        is_allowed
    }

    #[test]
    fn a_few_are_allowed_though_nothing_was_asked_and_none_without_a_floor() {
        let (mut budget, now) = (RetryBudget::default(), Duration::ZERO);
        let allowed = (0..100).filter(|_| spend(&mut budget, &CONFIG, now)).count();
        assert_eq!(allowed, 10, "one a second of the window");
        assert!(spend(&mut budget, &CONFIG, WINDOW), "they come back");
        let strict = RetryConfig { floor: 0.0, ..CONFIG };
        assert!(!RetryBudget::default().allows(&strict, now));
    }

    proptest! {
        #[test]
        fn an_outage_multiplies_the_load_by_no_more_than_the_share_and_the_floor(
            pauses in prop::collection::vec(0u64..50, 1..500),
        ) {
            let (mut budget, mut now, mut retries) = (RetryBudget::default(), Duration::ZERO, 0u64);
            let requests = pauses.len() as f64;
            for pause in pauses {
                now += Duration::from_millis(pause);
                budget.asked(now);
                for _ in 0..CONFIG.limit {
                    retries += u64::from(spend(&mut budget, &CONFIG, now));
                }
            }
            let windows = (now.as_secs_f64() / (WINDOW.as_secs_f64() * 0.9)).ceil().max(1.0);
            let floor = CONFIG.floor * WINDOW.as_secs_f64() * windows;
            prop_assert!(retries as f64 <= CONFIG.share * requests * 1.2 + floor, "{} retries", retries);
        }
    }
}
