//! What the selection already knows to be lost: F0 − A, with a history in two parts, A − F2 and F2 − F3, each token with its
//! reason.
//!
//! A reason is decided where its facts are: the router knows which ranks were excluded, the selector what a candidate
//! would have cost, the index what left it. Here the facts become amounts that close: the reasons of a stage always add
//! up to its difference, whatever the facts lack.

use kvroute_core::{Exclusion, PlacementReason, Tokens, closed_label};

use crate::{CachedStages, HistoryLoss, UnavailableLoss};

closed_label! {
    /// Between which two stages of the funnel tokens were lost.
    LossStage {
        /// Between the input and what some request has computed before. Needs a history.
        New = "new",
        /// Between what some request has computed before and the longest cached prefix anywhere. Needs a history.
        Residency = "residency",
        /// Between the input and the longest cached prefix anywhere, of attempts that no history was asked about.
        Unavailable = "unavailable",
        /// Between the longest cached prefix anywhere and the longest one that could be picked.
        Eligibility = "eligibility",
        /// Between the longest one that could be picked and the one that was picked.
        Placement = "placement",
        /// Between the promise of the index and the engine's report.
        Delivery = "delivery",
    }
}

/// F0 − A by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbsentLoss {
    /// Without a history: nobody knows what was computed before.
    Unavailable(UnavailableLoss),
    /// With one.
    ByHistory(HistoryLoss),
}

/// All that is lost by the selection, with its reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectionLosses {
    /// F0 − A.
    pub absent: AbsentLoss,
    /// Of A − F2: the first reason that excluded any holder of A. `None` where nothing is lost there.
    pub eligibility: Option<Exclusion>,
    /// Of F2 − F3; `None` where nothing is lost there.
    pub placement: Option<PlacementReason>,
}

// === impl AbsentLoss ===

impl AbsentLoss {
    /// True unless an amount is not its difference: `F0 = unavailable + A` without a history, `F0 = new + F1` and
    /// `F1 + surplus = residency + A` with one; or it does not tell of the history that was asked.
    pub fn closes(&self, input: Tokens, history: Option<Tokens>, anywhere: Tokens) -> bool {
        match (self, history) {
            (Self::Unavailable(loss), None) => loss.total() + anywhere == input,
            (Self::ByHistory(loss), Some(history)) => {
                loss.new_tokens() + history == input
                    && history + loss.surplus_tokens() == loss.residency_tokens() + anywhere
            }
            (Self::Unavailable(_), Some(_)) | (Self::ByHistory(_), None) => false,
        }
    }
}

// === impl SelectionLosses ===

impl SelectionLosses {
    /// True unless a stage has a difference without a reason, a reason without a difference, or an amount that is not the
    /// difference.
    pub fn close(&self, input: Tokens, history: Option<Tokens>, stages: &CachedStages) -> bool {
        let CachedStages { anywhere, best, selected } = *stages;
        self.absent.closes(input, history, anywhere)
            && self.eligibility.is_some() == (best < anywhere)
            && self.placement.is_some() == (selected < best)
    }
}

#[cfg(test)]
pub(crate) mod tests;
