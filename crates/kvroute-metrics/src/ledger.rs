//! The loss ledger of one model in one phase: what each stage of the funnel lost, in tokens and in time.

mod by_history;
mod loss;

use std::sync::{Arc, OnceLock};

use kvroute_core::{Exclusion, ModelName, Phase, PlacementReason, Tokens, TokensPerSecond};
use kvroute_funnel::{
    AbsentLoss, CachedStages, Delivery, DeliveryReason, LossStage, Opening, SelectionLosses,
    UnavailableReason,
};
use prometheus::IntCounter;

use self::by_history::HistoryCounters;
use self::loss::Loss;
use crate::families::Families;
use crate::series::Scope;
use crate::{LedgerTotals, Losses};

/// They exist only where an index is asked and the loss ledger covers the phase.
#[derive(Debug)]
pub(crate) struct LedgerCounters {
    families: Arc<Families>,
    phase: Phase,
    model: ModelName,
    input: IntCounter,
    anywhere: IntCounter,
    history: OnceLock<HistoryCounters>,
    unavailable: [Loss; UnavailableReason::ALL.len()],
    eligibility: [Loss; Exclusion::ALL.len()],
    placement: [Loss; PlacementReason::ALL.len()],
    delivery: [Loss; DeliveryReason::ALL.len()],
    predicted: IntCounter,
    reported: IntCounter,
    surplus: IntCounter,
    _series: Scope,
}

/// Whether losses of attempts in this phase are accounted for. A decode leg's engine counts the KV that was
/// transferred to it as cached, so that its word says nothing about a cache.
pub(crate) const fn covers(phase: Phase) -> bool {
    matches!(phase, Phase::Aggregated | Phase::Prefill)
}

// === impl LedgerCounters ===

impl LedgerCounters {
    pub(crate) fn new(families: &Arc<Families>, phase: Phase, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        let pair = [phase.as_str(), model.as_str()];
        let mut loss = |stage, reason| Loss::new(families, &mut scope, pair, stage, reason);
        Self {
            unavailable: UnavailableReason::ALL.map(|reason| loss(LossStage::Unavailable, reason.as_str())),
            eligibility: Exclusion::ALL.map(|reason| loss(LossStage::Eligibility, reason.as_str())),
            placement: PlacementReason::ALL.map(|reason| loss(LossStage::Placement, reason.as_str())),
            delivery: DeliveryReason::ALL.map(|reason| loss(LossStage::Delivery, reason.as_str())),
            history: OnceLock::new(),
            input: scope.hold(&families.ledger_input, pair),
            anywhere: scope.hold(&families.anywhere_cached, pair),
            predicted: scope.hold(&families.compared_predicted, pair),
            reported: scope.hold(&families.compared_reported, pair),
            surplus: scope.hold(&families.reuse_surplus, [pair[0], pair[1], LossStage::Delivery.as_str()]),
            families: Arc::clone(families),
            phase,
            model: model.clone(),
            _series: scope,
        }
    }

    /// Makes F1 and the stages that need it exist at zero.
    pub(crate) fn show_history(&self) {
        self.history();
    }

    /// Everything between F0 and F3 of one attempt.
    pub(crate) fn selected(
        &self,
        input: Tokens,
        stages: &CachedStages,
        opening: &Opening,
        losses: &SelectionLosses,
        speed: Option<TokensPerSecond>,
    ) {
        let CachedStages { anywhere, best, selected } = *stages;
        self.input.inc_by(input.get());
        self.anywhere.inc_by(anywhere.get());
        match &losses.absent {
            AbsentLoss::Unavailable(loss) => {
                for (reason, tokens) in loss.by_reason() {
                    self.unavailable[reason as usize].add(tokens, speed);
                }
            }
            AbsentLoss::ByHistory(loss) => {
                self.history().add(opening.history.unwrap_or_default(), loss, speed);
            }
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
        let of_history = |of: fn(&HistoryCounters) -> &IntCounter| self.history.get().map(of).map(tokens);
        LedgerTotals {
            lost: self.losses(|loss| tokens(&loss.tokens)),
            surplus: tokens(&self.surplus),
            residency_surplus: of_history(|history| &history.surplus),
            compared_reported: tokens(&self.reported),
            compared_predicted: tokens(&self.predicted),
            anywhere: tokens(&self.anywhere),
            history: of_history(|history| &history.cached),
            input: tokens(&self.input),
        }
    }

    /// Prefill time of what was lost, over all phases of the model.
    pub(crate) fn lost_seconds(&self) -> Losses<f64> {
        self.losses(|loss| loss.seconds.get())
    }

    fn losses<T>(&self, of: impl Fn(&Loss) -> T + Copy) -> Losses<T> {
        let history = self.history.get();
        Losses {
            new: history.map(|history| history.new.each_ref().map(of)),
            residency: history.map(|history| history.residency.each_ref().map(of)),
            unavailable: self.unavailable.each_ref().map(of),
            eligibility: self.eligibility.each_ref().map(of),
            placement: self.placement.each_ref().map(of),
            delivery: self.delivery.each_ref().map(of),
        }
    }

    fn history(&self) -> &HistoryCounters {
        let pair = [self.phase.as_str(), self.model.as_str()];
        self.history.get_or_init(|| HistoryCounters::new(&self.families, pair))
    }
}
