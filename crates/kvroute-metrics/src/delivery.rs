//! The delivery stage of one model in one phase: what the index promised against what the engines reused.

use kvroute_core::{ModelName, Phase, Tokens};
use kvroute_funnel::{Delivery, DeliveryReason, LossStage};
use prometheus::IntCounter;

use crate::families::Families;
use crate::series::Scope;

/// They exist only where an index is asked and the loss ledger covers the phase.
#[derive(Debug)]
pub(crate) struct DeliveryCounters {
    predicted: IntCounter,
    reported: IntCounter,
    lost: [IntCounter; DeliveryReason::ALL.len()],
    surplus: IntCounter,
    _series: Scope,
}

/// Whether losses of attempts in this phase are accounted for. A decode leg's engine counts the KV that was
/// transferred to it as cached, so that its word says nothing about a cache.
pub(crate) const fn covers(phase: Phase) -> bool {
    matches!(phase, Phase::Aggregated | Phase::Prefill)
}

// === impl DeliveryCounters ===

impl DeliveryCounters {
    pub(crate) fn new(families: &Families, phase: Phase, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        let pair = [phase.as_str(), model.as_str()];
        let stage = LossStage::Delivery.as_str();
        Self {
            predicted: scope.hold(&families.compared_predicted, pair),
            reported: scope.hold(&families.compared_reported, pair),
            lost: DeliveryReason::ALL
                .map(|reason| scope.hold(&families.reuse_lost, [pair[0], pair[1], stage, reason.as_str()])),
            surplus: scope.hold(&families.reuse_surplus, [pair[0], pair[1], stage]),
            _series: scope,
        }
    }

    pub(crate) fn compared(&self, delivery: &Delivery) {
        self.predicted.inc_by(delivery.predicted.get());
        self.reported.inc_by(delivery.reported.get());
        self.surplus.inc_by(delivery.surplus.get());
    }

    pub(crate) fn undelivered(&self, reason: DeliveryReason, tokens: Tokens) {
        self.lost[reason as usize].inc_by(tokens.get());
    }
}
