//! The loss ledger of one model in one phase: what each stage of the funnel lost, in tokens and in time.

use kvroute_core::{Exclusion, ModelName, Phase, PlacementReason, Tokens, TokensPerSecond};
use kvroute_funnel::{CachedStages, Delivery, DeliveryReason, LossStage, SelectionLosses, UnavailableReason};
use prometheus::{Counter, IntCounter};

use crate::families::Families;
use crate::series::Scope;
use crate::{LedgerTotals, Losses};

/// They exist only where an index is asked and the loss ledger covers the phase.
#[derive(Debug)]
pub(crate) struct LedgerCounters {
    input: IntCounter,
    anywhere: IntCounter,
    unavailable: [Loss; UnavailableReason::ALL.len()],
    eligibility: [Loss; Exclusion::ALL.len()],
    placement: [Loss; PlacementReason::ALL.len()],
    delivery: [Loss; DeliveryReason::ALL.len()],
    predicted: IntCounter,
    reported: IntCounter,
    surplus: IntCounter,
    _series: Scope,
}

/// One reason of one stage.
#[derive(Debug)]
struct Loss {
    tokens: IntCounter,
    seconds: Counter,
}

/// Whether losses of attempts in this phase are accounted for. A decode leg's engine counts the KV that was
/// transferred to it as cached, so that its word says nothing about a cache.
pub(crate) const fn covers(phase: Phase) -> bool {
    matches!(phase, Phase::Aggregated | Phase::Prefill)
}

// === impl LedgerCounters ===

impl LedgerCounters {
    pub(crate) fn new(families: &Families, phase: Phase, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        let pair = [phase.as_str(), model.as_str()];
        let mut loss = |stage: LossStage, reason: &'static str| Loss {
            tokens: scope.hold(&families.reuse_lost, [pair[0], pair[1], stage.as_str(), reason]),
            seconds: scope.hold(&families.lost_seconds, [pair[1], stage.as_str(), reason]),
        };
        Self {
            unavailable: UnavailableReason::ALL.map(|reason| loss(LossStage::Unavailable, reason.as_str())),
            eligibility: Exclusion::ALL.map(|reason| loss(LossStage::Eligibility, reason.as_str())),
            placement: PlacementReason::ALL.map(|reason| loss(LossStage::Placement, reason.as_str())),
            delivery: DeliveryReason::ALL.map(|reason| loss(LossStage::Delivery, reason.as_str())),
            input: scope.hold(&families.ledger_input, pair),
            anywhere: scope.hold(&families.anywhere_cached, pair),
            predicted: scope.hold(&families.compared_predicted, pair),
            reported: scope.hold(&families.compared_reported, pair),
            surplus: scope.hold(&families.reuse_surplus, [pair[0], pair[1], LossStage::Delivery.as_str()]),
            _series: scope,
        }
    }

    /// Everything between F0 and F3 of one attempt.
    pub(crate) fn selected(
        &self,
        input: Tokens,
        stages: &CachedStages,
        losses: &SelectionLosses,
        speed: Option<TokensPerSecond>,
    ) {
        let CachedStages { anywhere, best, selected } = *stages;
        self.input.inc_by(input.get());
        self.anywhere.inc_by(anywhere.get());
        for (reason, tokens) in losses.unavailable.by_reason() {
            self.unavailable[reason as usize].add(tokens, speed);
        }
        if let Some(reason) = losses.eligibility {
            self.eligibility[reason as usize].add(anywhere - best, speed);
        }
        if let Some(reason) = losses.placement {
            self.placement[reason as usize].add(best - selected, speed);
        }
    }

    pub(crate) fn compared(&self, delivery: &Delivery) {
        self.predicted.inc_by(delivery.predicted.get());
        self.reported.inc_by(delivery.reported.get());
        self.surplus.inc_by(delivery.surplus.get());
    }

    pub(crate) fn undelivered(&self, reason: DeliveryReason, tokens: Tokens, speed: Option<TokensPerSecond>) {
        self.delivery[reason as usize].add(tokens, speed);
    }

    /// As it stands.
    pub(crate) fn totals(&self) -> LedgerTotals {
        let tokens = |counter: &IntCounter| Tokens::new(counter.get());
        LedgerTotals {
            lost: Losses::each(|stage, reason| tokens(&self.of_stage(stage)[reason].tokens)),
            surplus: tokens(&self.surplus),
            compared_reported: tokens(&self.reported),
            compared_predicted: tokens(&self.predicted),
            anywhere: tokens(&self.anywhere),
            input: tokens(&self.input),
        }
    }

    /// Prefill time of what was lost, over all phases of the model.
    pub(crate) fn lost_seconds(&self) -> Losses<f64> {
        Losses::each(|stage, reason| self.of_stage(stage)[reason].seconds.get())
    }

    const fn of_stage(&self, stage: LossStage) -> &[Loss] {
        match stage {
            LossStage::Unavailable => &self.unavailable,
            LossStage::Eligibility => &self.eligibility,
            LossStage::Placement => &self.placement,
            LossStage::Delivery => &self.delivery,
        }
    }
}

// === impl Loss ===

impl Loss {
    /// Tokens take no time as long as nobody has seen how fast the worker is.
    fn add(&self, tokens: Tokens, speed: Option<TokensPerSecond>) {
        if tokens.is_zero() {
            return;
        }
        self.tokens.inc_by(tokens.get());
        if let Some(speed) = speed {
            self.seconds.inc_by(speed.seconds_for(tokens));
        }
    }
}
