//! The stages of the cache-reuse funnel, as the router's own metrics tell them.

/// Token counts of one run; `None` where the router exports no such series, which is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
}

// === impl Funnel ===

impl Funnel {
    /// A stage's share of the input; absent if either is.
    pub(crate) fn share_of_input(&self, stage: Option<u64>) -> Option<f64> {
        let input = self.input.filter(|input| *input > 0)?;
        Some(stage? as f64 / input as f64)
    }
}
