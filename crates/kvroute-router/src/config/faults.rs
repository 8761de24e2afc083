//! What a pool is told about workers that fail: when one gets no more requests, and how often a request is sent again.

use std::time::Duration;

/// When requests alone show that a worker is out of order, and for how long it is then left alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakerConfig {
    /// Whether there is one; if not, only probes and refused connections take a worker out.
    pub enabled: bool,
    /// Failures in a row that open it.
    pub failures: u32,
    /// Share of failures within the window that opens it, 0 to 1.
    pub share: f64,
    /// How far back the share looks.
    pub window: Duration,
    /// How long the worker is left alone the first time; twice as long each further time, until it has served a request.
    pub cooldown: Duration,
    /// The longest time that it is left alone.
    pub longest: Duration,
}

/// How a worker is asked whether it is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthConfig {
    /// Time between two questions to a worker that is well.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Failed questions in a row that take it out.
    pub failures: u32,
    /// Answers in a row that bring it back.
    pub successes: u32,
}

/// How often requests whose worker failed are sent again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryConfig {
    /// How often one request is sent again at most; 0: never.
    pub limit: u32,
    /// Share of the requests of the last ten seconds that may be sent again, 0 to 1.
    pub share: f64,
    /// Retries a second that are allowed beside that, however few requests there are.
    pub floor: f64,
}

// === impl BreakerConfig ===

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            failures: 5,
            share: 0.5,
            window: Duration::from_secs(10),
            cooldown: Duration::from_secs(5),
            longest: Duration::from_secs(60),
        }
    }
}

// === impl HealthConfig ===

impl Default for HealthConfig {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(2), Duration::from_secs(5));
        Self { interval, timeout, failures: 3, successes: 1 }
    }
}

// === impl RetryConfig ===

impl Default for RetryConfig {
    fn default() -> Self {
        Self { limit: 2, share: 0.2, floor: 3.0 }
    }
}
