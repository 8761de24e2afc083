//! What became of a decision: how its attempt ended and what the engine said.

use kvroute_core::Tokens;
use kvroute_funnel::{Closing, ReportOutcome};
use serde::Serialize;

/// What is known once an attempt is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReportRecord {
    /// How the attempt ended: `completed`, `failed` or `cancelled`.
    pub outcome: &'static str,
    /// Whether the worker had the request at all.
    pub dispatched: bool,
    /// What the engine's report was worth, by the names of `kvroute_router_reuse_reports_total`; `None` for endpoints
    /// without a prompt.
    pub report: Option<&'static str>,
    /// The engine's own count of the prompt; `None` where it gave none.
    pub input_tokens: Option<u64>,
    /// F4: tokens that the engine reused; `None` where its report is not counted.
    pub reused_tokens: Option<u64>,
    /// F3 − F4 where that is positive, else 0; `None` where the two cannot be compared.
    pub lost_tokens: Option<u64>,
}

// === impl ReportRecord ===

impl ReportRecord {
    /// Of a closed attempt: `engine_input` is the engine's count of the prompt, `predicted` is F3.
    pub(crate) fn of(closing: &Closing, engine_input: Option<u64>, predicted: Option<Tokens>) -> Self {
        let is_comparable = closing.outcome == Some(ReportOutcome::Reported);
        let lost = || Some(predicted?.saturating_sub(closing.reused?).get());
        Self {
            outcome: closing.close.as_str(),
            dispatched: closing.dispatched,
            report: closing.outcome.map(ReportOutcome::as_str),
            input_tokens: engine_input,
            reused_tokens: closing.reused.map(Tokens::get),
            lost_tokens: is_comparable.then(lost).flatten(),
        }
    }
}
