//! The funnel of one model in one phase: handles that every attempt of it adds to.

use std::sync::{Arc, OnceLock};

use kvroute_core::{ModelName, Phase, Tokens, TokensPerSecond};
use kvroute_funnel::{
    CachedStages, Close, Closing, Count, DeliveryReason, Judgement, Opening, ReportOutcome, UncountedReason,
};
use prometheus::{Histogram, IntCounter};

use crate::families::Families;
use crate::ledger::{self, LedgerCounters};
use crate::series::Scope;
use crate::totals::Totals;
use crate::{CachedTotals, Losses, PhaseFunnel};

/// All series of one (phase, model), held until the pool and its last attempt are gone.
#[derive(Debug)]
pub(crate) struct PhaseMetrics {
    families: Arc<Families>,
    totals: Arc<Totals>,
    phase: Phase,
    model: ModelName,
    input: OnceLock<(Histogram, Scope)>,
    cached: OnceLock<(CachedCounters, Scope)>,
    ledger: OnceLock<LedgerCounters>,
    repeated_input: IntCounter,
    reused: IntCounter,
    outcomes: [IntCounter; ReportOutcome::ALL.len()],
    reported_input: IntCounter,
    expected_input: IntCounter,
    uncached_prefill: IntCounter,
    uncounted: [IntCounter; UncountedReason::ALL.len()],
    attempts: [IntCounter; Close::ALL.len()],
    _series: Scope,
}

/// F2 and F3: they exist only where an index is asked.
#[derive(Debug)]
struct CachedCounters {
    best: IntCounter,
    selected: IntCounter,
}

// === impl PhaseMetrics ===

impl PhaseMetrics {
    pub(crate) fn new(
        families: &Arc<Families>,
        totals: &Arc<Totals>,
        phase: Phase,
        model: &ModelName,
        policy: &'static str,
    ) -> Self {
        let mut scope = Scope::default();
        let pair = [phase.as_str(), model.as_str()];
        let with = |last: &'static str| [pair[0], pair[1], last];
        Self {
            families: Arc::clone(families),
            totals: Arc::clone(totals),
            phase,
            model: model.clone(),
            input: OnceLock::new(),
            cached: OnceLock::new(),
            ledger: OnceLock::new(),
            repeated_input: scope.hold(&families.repeated_input, pair),
            reused: scope.hold(&families.worker_reused, pair),
            outcomes: ReportOutcome::ALL
                .map(|outcome| scope.hold(&families.reuse_reports, with(outcome.as_str()))),
            reported_input: scope.hold(&families.reported_input, pair),
            expected_input: scope.hold(&families.expected_input, pair),
            uncached_prefill: scope.hold(&families.uncached_prefill, pair),
            uncounted: UncountedReason::ALL
                .map(|reason| scope.hold(&families.uncounted_attempts, with(reason.as_str()))),
            attempts: Close::ALL
                .map(|close| scope.hold(&families.attempts, [pair[0], pair[1], policy, close.as_str()])),
            _series: scope,
        }
    }

    /// F0, made at the first call.
    pub(crate) fn input(&self) -> &Histogram {
        let (input, _) = self.input.get_or_init(|| {
            let mut scope = Scope::default();
            (scope.hold(&self.families.input_tokens, self.labels()), scope)
        });
        input
    }

    /// Makes A, F2, F3 and the loss ledger exist at zero, and F1 if there is a history.
    pub(crate) fn show_cached(&self, has_history: bool) {
        self.cached();
        if ledger::covers(self.phase) {
            let ledger = self.ledger();
            if has_history {
                ledger.show_history();
            }
        }
    }

    /// `speed` is the worker's, to turn what is lost into time.
    pub(crate) fn opened(&self, opening: &Opening, speed: Option<TokensPerSecond>) {
        self.totals.bookings.inc();
        match opening.count {
            Count::Exact { input, cached } => self.counted(opening, input, cached, speed),
            Count::Uncounted(reason) => self.uncounted[reason as usize].inc(),
        }
    }

    fn counted(
        &self,
        opening: &Opening,
        input: Tokens,
        cached: Option<CachedStages>,
        speed: Option<TokensPerSecond>,
    ) {
        self.input().observe(input.get() as f64);
        if opening.is_repeat {
            self.repeated_input.inc_by(input.get());
        }
        if let Some(history) = opening.history {
            self.totals.history(&self.families).opened(history, input);
        }
        let Some(stages) = cached else { return };
        self.cached().add(&stages);
        if let Some(terms) = &opening.ledger {
            self.ledger().selected(input, &stages, opening, &terms.losses, speed);
        }
    }

    /// The expected input first: a scrape in between must not see coverage above 1.
    pub(crate) fn judged(&self, judgement: &Judgement) {
        self.expected_input.inc_by(judgement.expected_input.get());
        self.reported_input.inc_by(judgement.reported_input.get());
        self.outcomes[judgement.outcome as usize].inc();
        if let Some(reused) = judgement.reused {
            self.reused.inc_by(reused.get());
        }
        if let Some(uncached) = judgement.uncached() {
            self.uncached_prefill.inc_by(uncached.get());
        }
        if let Some(delivery) = &judgement.delivery {
            self.ledger().compared(delivery);
        }
    }

    pub(crate) fn undelivered(&self, reason: DeliveryReason, tokens: Tokens, speed: Option<TokensPerSecond>) {
        self.ledger().undelivered(reason, tokens, speed);
    }

    pub(crate) fn closed(&self, closing: &Closing) {
        self.attempts[closing.close as usize].inc();
        if closing.dispatched {
            self.totals.dispatched_attempts.inc();
        }
        if let Some(observation) = closing.observation {
            self.totals.history(&self.families).closed(observation);
        }
    }

    /// As it stands.
    pub(crate) fn funnel(&self) -> PhaseFunnel {
        let tokens = |counter: &IntCounter| Tokens::new(counter.get());
        PhaseFunnel {
            ledger: self.ledger.get().map(LedgerCounters::totals),
            cached: self.cached.get().map(|(cached, _)| cached.totals()),
            reused: tokens(&self.reused),
            reported_input: tokens(&self.reported_input),
            expected_input: tokens(&self.expected_input),
            uncached_prefill: tokens(&self.uncached_prefill),
            reports: self.outcomes.each_ref().map(IntCounter::get),
            uncounted: self.uncounted.each_ref().map(IntCounter::get),
            attempts: self.attempts.each_ref().map(IntCounter::get),
            repeated_input: tokens(&self.repeated_input),
            input: self.input.get().map(|(input, _)| Tokens::new(input.get_sample_sum() as u64)),
        }
    }

    /// Prefill time of what was lost, over all phases of the model; `None` without a loss ledger.
    pub(crate) fn lost_seconds(&self) -> Option<Losses<f64>> {
        self.ledger.get().map(LedgerCounters::lost_seconds)
    }

    fn cached(&self) -> &CachedCounters {
        let (cached, _) = self.cached.get_or_init(|| {
            let mut scope = Scope::default();
            let counters = CachedCounters {
                best: scope.hold(&self.families.best_cached, self.labels()),
                selected: scope.hold(&self.families.selected_cached, self.labels()),
            };
            (counters, scope)
        });
        cached
    }

    fn ledger(&self) -> &LedgerCounters {
        self.ledger.get_or_init(|| LedgerCounters::new(&self.families, self.phase, &self.model))
    }

    fn labels(&self) -> [&str; 2] {
        [self.phase.as_str(), self.model.as_str()]
    }
}

// === impl CachedCounters ===

impl CachedCounters {
    fn add(&self, stages: &CachedStages) {
        self.best.inc_by(stages.best.get());
        self.selected.inc_by(stages.selected.get());
    }

    fn totals(&self) -> CachedTotals {
        CachedTotals { selected: Tokens::new(self.selected.get()), best: Tokens::new(self.best.get()) }
    }
}
