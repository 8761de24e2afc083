//! The two stages of the loss ledger that need a history, and F1 between them.

use kvroute_core::{Tokens, TokensPerSecond};
use kvroute_funnel::{HistoryLoss, LossStage, NewReason, ResidencyReason};
use prometheus::IntCounter;

use super::loss::Loss;
use crate::families::Families;
use crate::series::Scope;

/// They exist only where a history is asked beside the index.
#[derive(Debug)]
pub(super) struct HistoryCounters {
    pub(super) cached: IntCounter,
    pub(super) new: [Loss; NewReason::ALL.len()],
    pub(super) residency: [Loss; ResidencyReason::ALL.len()],
    pub(super) surplus: IntCounter,
    _series: Scope,
}

// === impl HistoryCounters ===

impl HistoryCounters {
    pub(super) fn new(families: &Families, pair: [&str; 2]) -> Self {
        let mut scope = Scope::default();
        let [new, residency] = [LossStage::New, LossStage::Residency];
        let surplus = [pair[0], pair[1], residency.as_str()];
        Self {
            new: NewReason::ALL.map(|reason| Loss::new(families, &mut scope, pair, new, reason.as_str())),
            residency: ResidencyReason::ALL
                .map(|reason| Loss::new(families, &mut scope, pair, residency, reason.as_str())),
            surplus: scope.hold(&families.reuse_surplus, surplus),
            cached: scope.hold(&families.history.get().cached_by_model, pair),
            _series: scope,
        }
    }

    pub(super) fn add(&self, history: Tokens, loss: &HistoryLoss, speed: Option<TokensPerSecond>) {
        self.cached.inc_by(history.get());
        for (reason, tokens) in loss.new_by_reason() {
            self.new[reason as usize].add(tokens, speed);
        }
        for (reason, tokens) in loss.residency_by_reason() {
            self.residency[reason as usize].add(tokens, speed);
        }
        self.surplus.inc_by(loss.surplus_tokens().get());
    }
}
