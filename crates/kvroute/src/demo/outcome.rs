//! What one run came to: the numbers of the table and of the JSON.

use std::time::Duration;

use super::funnel::Funnel;
use super::progress::{Percentiles, Progress};

/// One policy's run, finished or not.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) policy: String,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) funnel: Funnel,
    /// What the engines counted themselves; absent while the run goes on.
    pub(crate) engine_reused: Option<u64>,
    pub(crate) first_token: Percentiles,
    pub(crate) elapsed: Duration,
}

// === impl Outcome ===

impl Outcome {
    /// The state of a run after so long.
    pub(crate) fn of(policy: &str, progress: &Progress, funnel: Funnel, elapsed: Duration) -> Self {
        Self {
            policy: policy.to_owned(),
            requests: progress.requests(),
            errors: progress.errors(),
            first_error: progress.first_error(),
            funnel,
            engine_reused: None,
            first_token: progress.first_token_percentiles(),
            elapsed,
        }
    }
}
