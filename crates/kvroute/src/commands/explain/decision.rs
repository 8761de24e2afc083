//! A decision, as far as it is explained. Fields that a router adds later do no harm.

use serde::Deserialize;
use serde_json::{Map, Value};

/// What was decided and why.
#[derive(Debug, Deserialize)]
pub(crate) struct Decision {
    /// Absent where nothing was decided and only advice given.
    pub(crate) id: Option<String>,
    pub(crate) request_id: Option<String>,
    /// Milliseconds since the Unix epoch.
    pub(crate) at: u64,
    pub(crate) model: String,
    pub(crate) policy: String,
    pub(crate) reason: String,
    pub(crate) worker_id: String,
    pub(crate) dp_rank: u32,
    pub(crate) input_tokens: Option<u64>,
    pub(crate) best_cached_tokens: Option<u64>,
    pub(crate) best_eligible_cached_tokens: Option<u64>,
    pub(crate) selected_cached_tokens: Option<u64>,
    /// Why the longest cached prefix could not be picked; absent from routers that do not tell.
    #[serde(default)]
    pub(crate) eligibility_reason: Option<String>,
    /// Why the longest one that could be picked was not.
    #[serde(default)]
    pub(crate) placement_reason: Option<String>,
    pub(crate) waited_seconds: f64,
    pub(crate) block_size: u32,
    pub(crate) eligible: u64,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) left_out: u64,
    #[serde(default)]
    pub(crate) shadows: Vec<Shadow>,
    pub(crate) report: Option<Report>,
}

/// One rank as the decision saw it.
#[derive(Debug, Deserialize)]
pub(crate) struct Candidate {
    pub(crate) worker_id: String,
    pub(crate) dp_rank: u32,
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) credit_withheld: bool,
    pub(crate) active_requests: u64,
    pub(crate) cost: Option<f64>,
    pub(crate) terms: Map<String, Value>,
    pub(crate) excluded: Option<String>,
}

/// What a policy would have picked that nobody obeys.
#[derive(Debug, Deserialize)]
pub(crate) struct Shadow {
    pub(crate) policy: String,
    pub(crate) worker_id: Option<String>,
    pub(crate) dp_rank: Option<u32>,
    pub(crate) selected_cached_tokens: Option<u64>,
}

/// What came of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) outcome: String,
    pub(crate) report: Option<String>,
    pub(crate) input_tokens: Option<u64>,
    pub(crate) reused_tokens: Option<u64>,
    pub(crate) lost_tokens: Option<u64>,
}

// === impl Decision ===

impl Decision {
    /// The picked rank by its name.
    pub(crate) fn picked(&self) -> String {
        rank_name(&self.worker_id, self.dp_rank)
    }

    /// Whether a candidate is the picked one.
    pub(crate) fn is_picked(&self, candidate: &Candidate) -> bool {
        candidate.worker_id == self.worker_id && candidate.dp_rank == self.dp_rank
    }
}

// === impl Candidate ===

impl Candidate {
    /// Its name.
    pub(crate) fn name(&self) -> String {
        rank_name(&self.worker_id, self.dp_rank)
    }
}

/// A rank by the name that metrics and logs give it.
pub(crate) fn rank_name(worker_id: &str, dp_rank: u32) -> String {
    format!("{worker_id}/{dp_rank}")
}
