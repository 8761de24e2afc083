//! The funnel of one model in one phase: handles that every attempt of it adds to.

use std::sync::{Arc, OnceLock};

use kvroute_core::{ModelName, Phase, Tokens};
use kvroute_funnel::{
    CachedStages, Close, Closing, Count, DeliveryReason, Judgement, Opening, ReportOutcome, UncountedReason,
};
use prometheus::{Histogram, IntCounter};

use crate::delivery::{self, DeliveryCounters};
use crate::families::Families;
use crate::series::Scope;
use crate::totals::Totals;

/// All series of one (phase, model), held until the pool and its last attempt are gone.
#[derive(Debug)]
pub(crate) struct PhaseMetrics {
    families: Arc<Families>,
    totals: Arc<Totals>,
    phase: Phase,
    model: ModelName,
    input: OnceLock<(Histogram, Scope)>,
    cached: OnceLock<(CachedCounters, Scope)>,
    delivery: OnceLock<DeliveryCounters>,
    reused: IntCounter,
    outcomes: [IntCounter; ReportOutcome::ALL.len()],
    reported_input: IntCounter,
    expected_input: IntCounter,
    uncached_prefill: IntCounter,
    uncounted: [IntCounter; UncountedReason::ALL.len()],
    attempts: [IntCounter; Close::ALL.len()],
    _series: Scope,
}

/// A, F2 and F3: they exist only where an index is asked.
#[derive(Debug)]
struct CachedCounters {
    anywhere: IntCounter,
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
            delivery: OnceLock::new(),
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

    /// Makes A, F2, F3 and the delivery stage exist at zero.
    pub(crate) fn show_cached(&self) {
        self.cached();
        if delivery::covers(self.phase) {
            self.delivery();
        }
    }

    pub(crate) fn opened(&self, opening: &Opening) {
        self.totals.bookings.inc();
        match opening.count {
            Count::Exact { input, cached } => {
                self.input().observe(input.get() as f64);
                if let Some(stages) = cached {
                    self.cached().add(stages);
                }
            }
            Count::Uncounted(reason) => self.uncounted[reason as usize].inc(),
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
            self.delivery().compared(delivery);
        }
    }

    pub(crate) fn undelivered(&self, reason: DeliveryReason, tokens: Tokens) {
        self.delivery().undelivered(reason, tokens);
    }

    pub(crate) fn closed(&self, closing: &Closing) {
        self.attempts[closing.close as usize].inc();
        if closing.dispatched {
            self.totals.dispatched_attempts.inc();
        }
    }

    fn cached(&self) -> &CachedCounters {
        let (cached, _) = self.cached.get_or_init(|| {
            let mut scope = Scope::default();
            let counters = CachedCounters {
                anywhere: scope.hold(&self.families.anywhere_cached, self.labels()),
                best: scope.hold(&self.families.best_cached, self.labels()),
                selected: scope.hold(&self.families.selected_cached, self.labels()),
            };
            (counters, scope)
        });
        cached
    }

    fn delivery(&self) -> &DeliveryCounters {
        self.delivery.get_or_init(|| DeliveryCounters::new(&self.families, self.phase, &self.model))
    }

    fn labels(&self) -> [&str; 2] {
        [self.phase.as_str(), self.model.as_str()]
    }
}

// === impl CachedCounters ===

impl CachedCounters {
    fn add(&self, stages: CachedStages) {
        self.anywhere.inc_by(stages.anywhere.get());
        self.best.inc_by(stages.best.get());
        self.selected.inc_by(stages.selected.get());
    }
}
