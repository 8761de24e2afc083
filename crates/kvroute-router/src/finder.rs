//! How a pool's discovery fares, for those who ask.

use std::fmt;
use std::time::Duration;

use kvroute_metrics::DiscoveryMetrics;
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::config::{DiscoveryConfig, DiscoveryKind, DnsName};

/// One pool's discovery and what became of its last look.
#[derive(Debug)]
pub(crate) struct Finder {
    pool: String,
    config: DiscoveryConfig,
    metrics: DiscoveryMetrics,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What the last look failed with; `None` where it did not.
    problem: Option<String>,
    found: usize,
    /// The last look that succeeded; the start of the router before the first one.
    succeeded: Instant,
}

/// A discovery, as `GET /api/discovery` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct DiscoveryStatus {
    /// The pool's model, or its number where none is configured.
    pub pool: String,
    /// What is looked at.
    pub source: String,
    /// `ok`, or `failing` as long as the last look failed: then those who were found before stay.
    pub state: &'static str,
    /// What it failed with; empty if it did not.
    pub problem: String,
    /// Workers that the last look found that succeeded.
    pub found: usize,
    /// Seconds since then; since the router's start where none did.
    pub age_seconds: f64,
}

// === impl Finder ===

impl Finder {
    /// Of a discovery that has not looked yet.
    pub(crate) fn new(pool: String, config: DiscoveryConfig, metrics: DiscoveryMetrics) -> Self {
        let state =
            State { problem: Some("has not looked yet".to_owned()), found: 0, succeeded: Instant::now() };
        Self { pool, config, metrics, state: Mutex::new(state) }
    }

    /// What is to be looked at.
    pub(crate) const fn config(&self) -> &DiscoveryConfig {
        &self.config
    }

    /// A look found so many.
    pub(crate) fn found(&self, workers: usize) {
        let mut state = self.state.lock();
        let (was_found, problem) = (std::mem::replace(&mut state.found, workers), state.problem.take());
        state.succeeded = Instant::now();
        self.metrics.succeeded();
        if problem.is_some() || was_found != workers {
            tracing::info!(pool = %self.pool, source = %self.config.kind, workers, "workers discovered");
        }
    }

    /// A look found what the last one found, whatever that was.
    pub(crate) fn still(&self) {
        let mut state = self.state.lock();
        if state.problem.is_none() {
            state.succeeded = Instant::now();
        }
    }

    /// A look failed: it is said once for as long as it fails with the same.
    pub(crate) fn failed(&self, problem: &str) {
        let mut state = self.state.lock();
        self.metrics.failed();
        if state.problem.as_deref() == Some(problem) {
            return;
        }
        tracing::warn!(
            pool = %self.pool, source = %self.config.kind, problem, kept = state.found,
            "discovery fails: the workers that it found before stay"
        );
        state.problem = Some(problem.to_owned());
    }

    /// Shows how long ago the last look succeeded.
    pub(crate) fn show(&self) {
        self.metrics.set_age(self.age());
    }

    /// How it fares now.
    pub(crate) fn status(&self) -> DiscoveryStatus {
        let age_seconds = self.age().as_secs_f64();
        let state = self.state.lock();
        DiscoveryStatus {
            pool: self.pool.clone(),
            source: self.config.kind.to_string(),
            state: if state.problem.is_none() { "ok" } else { "failing" },
            problem: state.problem.clone().unwrap_or_default(),
            found: state.found,
            age_seconds,
        }
    }

    fn age(&self) -> Duration {
        self.state.lock().succeeded.elapsed()
    }
}

// === impl DiscoveryKind ===

impl fmt::Display for DiscoveryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Dns { name: DnsName::Service(name), .. } => write!(f, "dns SRV {name}"),
            Self::Dns { name: DnsName::Host(name, port), .. } => write!(f, "dns {name} port {port}"),
        }
    }
}
