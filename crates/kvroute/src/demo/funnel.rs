//! The stages of the cache-reuse funnel, and what was lost between them, as the router's own metrics tell it.

/// Token counts of one run; `None` where the router exports no such series, which is not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Funnel {
    /// Input tokens received.
    pub(crate) input: Option<u64>,
    /// What some request had computed before, cached or not.
    pub(crate) history: Option<u64>,
    /// Longest cached prefix on any worker.
    pub(crate) anywhere: Option<u64>,
    /// Longest cached prefix on an eligible worker.
    pub(crate) best_eligible: Option<u64>,
    /// Cached prefix on the worker that was picked.
    pub(crate) selected: Option<u64>,
    /// What the engines reported to have reused.
    pub(crate) reused: Option<u64>,
    /// Input of the requests that were reported on.
    pub(crate) reported_input: Option<u64>,
    /// Input of the requests that the loss ledger covers.
    pub(crate) ledger_input: Option<u64>,
    /// Every reason of every stage that exists, in the order of the ledger; empty where no index was asked.
    pub(crate) lost: Vec<Loss>,
    /// Of which stages the later one had more than the earlier one.
    pub(crate) surplus: Vec<(&'static str, u64)>,
}

/// What one reason cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss {
    pub(crate) stage: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) tokens: u64,
    /// Prefill time of these tokens; `None` where the router tells none.
    pub(crate) seconds: Option<f64>,
}

// === impl Funnel ===

impl Funnel {
    /// A part's share of the input; absent if either is.
    pub(crate) fn share_of_input(&self, part: Option<u64>) -> Option<f64> {
        let input = self.input.filter(|input| *input > 0)?;
        Some(part? as f64 / input as f64)
    }

    /// The reasons of one stage.
    pub(crate) fn lost_at(&self, stage: &str) -> impl Iterator<Item = &Loss> {
        self.lost.iter().filter(move |loss| loss.stage == stage)
    }

    /// What one reason cost; `None` where it does not exist.
    pub(crate) fn loss(&self, stage: &str, reason: &str) -> Option<&Loss> {
        self.lost_at(stage).find(|loss| loss.reason == reason)
    }

    /// What a stage had more than the one before it; `None` where it does not exist.
    pub(crate) fn surplus_at(&self, stage: &str) -> Option<u64> {
        self.surplus.iter().find(|(of, _)| *of == stage).map(|(_, tokens)| *tokens)
    }

    /// The reason that cost most tokens; `None` if nothing was lost.
    pub(crate) fn worst(&self) -> Option<&Loss> {
        self.lost.iter().filter(|loss| loss.tokens > 0).max_by_key(|loss| loss.tokens)
    }
}
