//! What a pool remembers of requests that were sent again: how many they are, and what was complained of.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::RetryConfig;
use crate::log_gate::LogGate;
use crate::retry_budget::RetryBudget;

/// The retries of one pool.
#[derive(Debug)]
pub(crate) struct Resending {
    budget: Mutex<RetryBudget>,
    clock: Instant,
    /// Lets a complaint about a spent budget through once in a while.
    pub(crate) spent: LogGate,
    /// The same about prefills that could not be called off.
    pub(crate) call_offs: LogGate,
}

// === impl Resending ===

impl Default for Resending {
    fn default() -> Self {
        Self {
            budget: Mutex::default(),
            clock: Instant::now(),
            spent: LogGate::new(),
            call_offs: LogGate::new(),
        }
    }
}

impl Resending {
    /// A request is sent for the first time.
    pub(crate) fn asked(&self) {
        self.budget.lock().asked(self.now());
    }

    /// Whether the budget lets one be sent again.
    pub(crate) fn is_allowed(&self, config: &RetryConfig) -> bool {
        self.budget.lock().allows(config, self.now())
    }

    /// One is sent again.
    pub(crate) fn resent(&self) {
        self.budget.lock().resent(self.now());
    }

    fn now(&self) -> Duration {
        self.clock.elapsed()
    }
}
