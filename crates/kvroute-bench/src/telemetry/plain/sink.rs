//! The numbers of one attempt, added to the series that its labels name.

use kvroute_core::{Tokens, TokensPerSecond};
use kvroute_funnel::{
    AbsentLoss, CachedStages, Closing, Count, DeliveryReason, FunnelSink, HistoryLoss, Judgement, LossStage,
    Opening, SelectionLosses,
};

use super::PHASE;
use super::families::Families;
use crate::telemetry::story::{DP_RANK, POLICY};

pub(super) struct PlainSink<'a> {
    pub(super) families: &'a Families,
    pub(super) model: &'a str,
    pub(super) worker: &'a str,
    pub(super) speed: Option<TokensPerSecond>,
}

// === impl PlainSink ===

impl PlainSink<'_> {
    const fn pair(&self) -> [&str; 2] {
        [PHASE, self.model]
    }

    fn lose(&self, stage: LossStage, reason: &'static str, tokens: Tokens) {
        if tokens.is_zero() {
            return;
        }
        let labels = [PHASE, self.model, stage.as_str(), reason];
        self.families.reuse_lost.with_label_values(&labels).inc_by(tokens.get());
        if let Some(speed) = self.speed {
            let seconds = self.families.lost_seconds.with_label_values(&labels[1..]);
            seconds.inc_by(speed.seconds_for(tokens));
        }
    }

    fn lose_all(&self, stages: &CachedStages, losses: &SelectionLosses) {
        let CachedStages { anywhere, best, selected } = *stages;
        match &losses.absent {
            AbsentLoss::Unavailable(loss) => {
                for (reason, tokens) in loss.by_reason() {
                    self.lose(LossStage::Unavailable, reason.as_str(), tokens);
                }
            }
            AbsentLoss::ByHistory(loss) => self.lose_by_history(loss),
        }
        if let Some(reason) = losses.eligibility {
            self.lose(LossStage::Eligibility, reason.as_str(), anywhere - best);
        }
        if let Some(reason) = losses.placement {
            self.lose(LossStage::Placement, reason.as_str(), best - selected);
        }
    }

    fn lose_by_history(&self, loss: &HistoryLoss) {
        for (reason, tokens) in loss.new_by_reason() {
            self.lose(LossStage::New, reason.as_str(), tokens);
        }
        for (reason, tokens) in loss.residency_by_reason() {
            self.lose(LossStage::Residency, reason.as_str(), tokens);
        }
    }

    fn compare(&self, delivery: &kvroute_funnel::Delivery) {
        let (families, pair) = (self.families, self.pair());
        families.compared_predicted.with_label_values(&pair).inc_by(delivery.predicted.get());
        families.compared_reported.with_label_values(&pair).inc_by(delivery.reported.get());
        let labels = [PHASE, self.model, LossStage::Delivery.as_str()];
        families.reuse_surplus.with_label_values(&labels).inc_by(delivery.surplus.get());
        let rank = [self.worker, DP_RANK];
        families.worker_predicted.with_label_values(&rank).inc_by(delivery.predicted.get());
        families.worker_reported.with_label_values(&rank).inc_by(delivery.reported.get());
    }
}

impl FunnelSink for PlainSink<'_> {
    fn opened(&self, opening: &Opening) {
        let (families, pair) = (self.families, self.pair());
        families.bookings.inc();
        let Count::Exact { input, cached: Some(stages) } = opening.count else { return };
        families.input_tokens.with_label_values(&pair).observe(input.get() as f64);
        families.best_cached.with_label_values(&pair).inc_by(stages.best.get());
        families.selected_cached.with_label_values(&pair).inc_by(stages.selected.get());
        if let Some(terms) = &opening.ledger {
            families.ledger_input.with_label_values(&pair).inc_by(input.get());
            families.anywhere_cached.with_label_values(&pair).inc_by(stages.anywhere.get());
            self.lose_all(&stages, &terms.losses);
        }
    }

    fn judged(&self, judgement: &Judgement) {
        let (families, pair) = (self.families, self.pair());
        families.expected_input.with_label_values(&pair).inc_by(judgement.expected_input.get());
        families.reported_input.with_label_values(&pair).inc_by(judgement.reported_input.get());
        let outcome = [PHASE, self.model, judgement.outcome.as_str()];
        families.reuse_reports.with_label_values(&outcome).inc();
        if let Some(reused) = judgement.reused {
            families.worker_reused.with_label_values(&pair).inc_by(reused.get());
        }
        if let Some(uncached) = judgement.uncached() {
            families.uncached_prefill.with_label_values(&pair).inc_by(uncached.get());
        }
        if let Some(delivery) = &judgement.delivery {
            self.compare(delivery);
        }
    }

    fn undelivered(&self, reason: DeliveryReason, tokens: Tokens) {
        self.lose(LossStage::Delivery, reason.as_str(), tokens);
    }

    fn closed(&self, closing: &Closing) {
        let labels = [PHASE, self.model, POLICY, closing.close.as_str()];
        self.families.attempts.with_label_values(&labels).inc();
        if closing.dispatched {
            self.families.dispatched_attempts.inc();
        }
    }
}
