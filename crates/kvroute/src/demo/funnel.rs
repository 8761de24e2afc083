//! The stages of the cache-reuse funnel, as the router's own metrics tell them.

use std::collections::BTreeMap;

/// Token counts of one run; `None` where the router exports no such series, which is not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Funnel {
    /// Input tokens received.
    pub(crate) input: Option<u64>,
    /// Longest cached prefix on an eligible worker.
    pub(crate) best_eligible: Option<u64>,
    /// Cached prefix on the worker that was picked.
    pub(crate) selected: Option<u64>,
    /// What the engines reported to have reused.
    pub(crate) reused: Option<u64>,
    /// Input of the requests that were reported on.
    pub(crate) reported_input: Option<u64>,
    /// What was promised against what was reused.
    pub(crate) delivery: Option<Delivery>,
}

/// The difference between the cached prefix on the picked worker and what the engine reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Tokens that were promised and not reused, by reason.
    pub(crate) lost: BTreeMap<String, u64>,
    /// Tokens that were reused beyond the promise.
    pub(crate) surplus: u64,
}

// === impl Funnel ===

impl Funnel {
    /// A stage's share of the input; absent if either is.
    pub(crate) fn share_of_input(&self, stage: Option<u64>) -> Option<f64> {
        let input = self.input.filter(|input| *input > 0)?;
        Some(stage? as f64 / input as f64)
    }

    /// Promised tokens that were not reused for this reason; absent if no promise was compared.
    pub(crate) fn undelivered(&self, reason: &str) -> Option<u64> {
        self.delivery.as_ref().map(|delivery| delivery.lost.get(reason).copied().unwrap_or(0))
    }
}
