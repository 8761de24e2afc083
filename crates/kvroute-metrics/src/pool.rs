//! The metrics of one pool: everything that carries its model as a label.

use std::sync::{Arc, OnceLock};

use kvroute_core::{ModelName, Phase, Tokens, TokensPerSecond, WorkerId};
use parking_lot::Mutex;
use prometheus::IntCounter;

use crate::families::Families;
use crate::handover::{MigrationCounters, PrefillCounters};
use crate::history::{HistoryBounds, HistoryMetrics};
use crate::identity::CheckCounters;
use crate::index::IndexMetrics;
use crate::phase::PhaseMetrics;
use crate::series::Scope;
use crate::shadow::ShadowCounters;
use crate::totals::Totals;
use crate::{
    AddedLatency, AttemptMetrics, IdentityMetrics, MigrationReason, ModelFunnel, PrefillFallbackReason,
    QueueMetrics, RankMetrics, RequestCounters, RequestRecorder, RequestShape, RetryReason, RetryRefusal,
    TokenizerCacheMetrics, WorkerType,
};

/// What the series of a pool are named by, and which of them exist from the start.
#[derive(Clone, Copy, Debug)]
pub struct PoolLabels<'a> {
    /// The pool's model.
    pub model: &'a ModelName,
    /// The pool's policy.
    pub policy: &'static str,
    /// Every reason that this policy gives for a pick.
    pub reasons: &'a [&'static str],
    /// The policies that are asked beside it.
    pub shadows: &'a [&'static str],
    /// Phases that attempts of this pool can have.
    pub phases: &'a [Phase],
    /// Whether the router counts the prompts; false leaves the input absent instead of zero.
    pub counts_input: bool,
    /// The bound of its history; `None` without one, and then nothing is told of any.
    pub history: Option<HistoryBounds>,
}

/// Handles of one pool, resolved once. Its series go when it and its last attempt are gone.
#[derive(Debug)]
pub struct PoolMetrics {
    families: Arc<Families>,
    totals: Arc<Totals>,
    model: ModelName,
    policy: &'static str,
    phases: [OnceLock<Arc<PhaseMetrics>>; Phase::ALL.len()],
    requests: Arc<RequestCounters>,
    retries: [IntCounter; RetryReason::ALL.len()],
    retries_refused: [IntCounter; RetryRefusal::ALL.len()],
    decisions: Vec<(&'static str, IntCounter)>,
    recorded: IntCounter,
    unrecorded: IntCounter,
    queue: QueueMetrics,
    shadows: Vec<ShadowCounters>,
    index: OnceLock<IndexMetrics>,
    history: Option<Arc<HistoryMetrics>>,
    migrations: OnceLock<MigrationCounters>,
    prefill: OnceLock<PrefillCounters>,
    identity: OnceLock<Arc<CheckCounters>>,
    tokenizer_cache: OnceLock<TokenizerCacheMetrics>,
    late: Mutex<Late>,
    _series: Scope,
}

/// What was named by nobody when the pool was made. It is made at its first use, under a lock that a known one never takes.
#[derive(Debug, Default)]
struct Late {
    decisions: Vec<(&'static str, IntCounter)>,
    shadows: Vec<ShadowCounters>,
    series: Scope,
}

/// What an index-based selection saw, in tier-weighted blocks of the pool's smallest block size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelectionOverlap {
    /// On the picked rank.
    pub selected: f64,
    /// The most on any rank of the set that the picker chose from.
    pub best: f64,
    /// Blocks of the prompt, the partial last one included.
    pub prompt: f64,
}

// === impl PoolMetrics ===

impl PoolMetrics {
    pub(crate) fn new(families: &Arc<Families>, totals: &Arc<Totals>, labels: &PoolLabels<'_>) -> Self {
        let mut scope = Scope::default();
        let decisions = labels.reasons.iter().map(|&reason| {
            let counter = scope.hold(&families.decisions, [labels.model.as_str(), labels.policy, reason]);
            (reason, counter)
        });
        let decisions = decisions.collect();
        let shadows = labels.shadows.iter();
        let shadows =
            shadows.map(|&policy| ShadowCounters::new(families, labels.model, policy, &mut scope)).collect();
        let worker_type =
            labels.phases.first().map_or(WorkerType::Decode, |&phase| WorkerType::of_phase(phase));
        let pool = Self {
            families: Arc::clone(families),
            totals: Arc::clone(totals),
            model: labels.model.clone(),
            policy: labels.policy,
            phases: Default::default(),
            requests: Arc::new(RequestCounters::new(families, labels.model.as_str())),
            retries: RetryReason::ALL
                .map(|reason| scope.hold(&families.retries, [labels.model.as_str(), reason.as_str()])),
            retries_refused: RetryRefusal::ALL.map(|reason| {
                scope.hold(&families.retries_refused, [labels.model.as_str(), reason.as_str()])
            }),
            decisions,
            recorded: scope.hold(&families.decisions_recorded, [labels.model.as_str()]),
            unrecorded: scope.hold(&families.decisions_unrecorded, [labels.model.as_str()]),
            queue: QueueMetrics::new(families, labels.model, worker_type, &mut scope),
            shadows,
            index: OnceLock::new(),
            history: labels
                .history
                .map(|bounds| Arc::new(HistoryMetrics::new(families, totals, labels.model, bounds))),
            migrations: OnceLock::new(),
            prefill: OnceLock::new(),
            identity: OnceLock::new(),
            tokenizer_cache: OnceLock::new(),
            late: Mutex::default(),
            _series: scope,
        };
        if labels.phases.contains(&Phase::Prefill) {
            pool.prefill();
        }
        if labels.counts_input {
            pool.checks();
            pool.tokenizer_cache();
        }
        for &phase in labels.phases {
            totals.stages(families, phase);
            let metrics = pool.phase(phase);
            if labels.counts_input {
                metrics.input();
            }
        }
        pool
    }

    /// Makes the cached stages and the delivery losses exist at zero in every phase of the pool, and the index's
    /// own families. To be called when the first rank gets an index source: until then they are absent, not zero.
    pub fn index_view_exists(&self) {
        self.index();
        for metrics in self.phases.iter().filter_map(OnceLock::get) {
            metrics.show_cached(self.history.is_some());
        }
    }

    /// The sink of one attempt's numbers on a rank. `speed` is how fast the rank computes prompts, if that was seen.
    pub fn attempt(
        &self,
        phase: Phase,
        rank: &RankMetrics,
        speed: Option<TokensPerSecond>,
    ) -> AttemptMetrics {
        AttemptMetrics::new(Arc::clone(self.phase(phase)), rank.handles(), speed)
    }

    /// The recorder of one client request.
    pub fn request(&self, shape: RequestShape) -> RequestRecorder {
        RequestRecorder::new(Arc::clone(&self.requests), Arc::clone(&self.totals), shape)
    }

    /// Counts an attempt that follows a failed one.
    pub fn retried(&self, reason: RetryReason) {
        self.retries[reason as usize].inc();
    }

    /// Counts a request that was not sent again.
    pub fn not_retried(&self, reason: RetryRefusal) {
        self.retries_refused[reason as usize].inc();
    }

    /// Makes the migrations exist at zero. To be called where streams can go on with another worker: elsewhere they are
    /// absent, not zero.
    pub fn migrates(&self) {
        self.migrations();
    }

    /// Counts a stream that goes on with another worker.
    pub fn migrated(&self, reason: MigrationReason) {
        self.migrations().migrated(reason);
    }

    /// Counts a request whose prompt no prefill worker computes, though the pool is made for that.
    pub fn prefill_fell_back(&self, reason: PrefillFallbackReason) {
        self.prefill().fell_back(reason);
    }

    /// Counts prompt tokens that a prefill worker computed for nobody.
    pub fn stranded(&self, tokens: Tokens) {
        self.prefill().stranded(tokens);
    }

    /// Handles of one worker's identity.
    pub fn identity(&self, worker: &WorkerId) -> IdentityMetrics {
        IdentityMetrics::new(&self.families, &self.model, worker, Arc::clone(self.checks()))
    }

    /// Handles of what the tokenizer's cache had.
    pub fn tokenizer_cache(&self) -> &TokenizerCacheMetrics {
        self.tokenizer_cache.get_or_init(|| TokenizerCacheMetrics::new(&self.families, &self.model))
    }

    /// Counts a decision by its reason.
    pub fn decided(&self, reason: &'static str) {
        if let Some(counter) = find_decision(&self.decisions, reason) {
            return counter.inc();
        }
        let mut late = self.late.lock();
        if find_decision(&late.decisions, reason).is_none() {
            let labels = [self.model.as_str(), self.policy, reason];
            let counter = late.series.hold(&self.families.decisions, labels);
            late.decisions.push((reason, counter));
        }
        if let Some(counter) = find_decision(&late.decisions, reason) {
            counter.inc();
        }
    }

    /// Counts a decision that is kept for whoever asks about it.
    pub fn decision_recorded(&self) {
        self.recorded.inc();
    }

    /// Counts a decision of which nothing is kept.
    pub fn decision_unrecorded(&self) {
        self.unrecorded.inc();
    }

    /// Counts what a shadow policy would have found of an attempt's input. Only where an index was asked: without a
    /// view there is nothing to compare.
    pub fn shadow(&self, policy: &'static str, input: Tokens, selected: Tokens) {
        if let Some(counters) = find_shadow(&self.shadows, policy) {
            return counters.compared(input, selected);
        }
        let mut late = self.late.lock();
        if find_shadow(&late.shadows, policy).is_none() {
            let counters = ShadowCounters::new(&self.families, &self.model, policy, &mut late.series);
            late.shadows.push(counters);
        }
        if let Some(counters) = find_shadow(&late.shadows, policy) {
            counters.compared(input, selected);
        }
    }

    /// Handles of the time that the router itself adds, whatever the model.
    pub fn added_latency(&self) -> &AddedLatency {
        &self.totals.added_latency
    }

    /// Handles of the pool's queue.
    pub fn queue(&self) -> QueueMetrics {
        self.queue.clone()
    }

    /// Samples the hit rate of a selection by an index, and what it gave away. Not for query-only
    /// selections, nor for the decode leg of a disaggregated request.
    pub fn selected(&self, phase: Phase, overlap: SelectionOverlap) {
        if overlap.prompt > 0.0 {
            self.totals.hit_rate.observe(overlap.selected / overlap.prompt);
        }
        if overlap.selected < overlap.best {
            self.totals.overlap_lost(WorkerType::of_phase(phase), overlap.best - overlap.selected);
        }
    }

    /// Shows how much memory the pool's index occupies.
    pub fn set_index_bytes(&self, bytes: usize) {
        self.index().set_bytes(bytes);
    }

    /// Counts copies that the index forgot to stay within its budget.
    pub fn index_budget_evicted(&self, copies: u64) {
        self.index().budget_evicted(copies);
    }

    /// Handles of the pool's history; `None` without one.
    pub const fn history(&self) -> Option<&Arc<HistoryMetrics>> {
        self.history.as_ref()
    }

    /// The funnel as it stands, in all phases, from the counters that a scrape shows.
    pub fn funnel(&self) -> ModelFunnel {
        let phases = self.phases.each_ref().map(OnceLock::get);
        ModelFunnel {
            lost_seconds: phases.iter().flatten().find_map(|phase| phase.lost_seconds()),
            phases: phases.map(|phase| phase.map(|phase| Box::new(phase.funnel()))),
        }
    }

    fn checks(&self) -> &Arc<CheckCounters> {
        self.identity.get_or_init(|| Arc::new(CheckCounters::new(&self.families, &self.model)))
    }

    fn migrations(&self) -> &MigrationCounters {
        self.migrations.get_or_init(|| MigrationCounters::new(&self.families, &self.model))
    }

    fn prefill(&self) -> &PrefillCounters {
        self.prefill.get_or_init(|| PrefillCounters::new(&self.families, &self.model))
    }

    fn index(&self) -> &IndexMetrics {
        self.index.get_or_init(|| IndexMetrics::new(&self.families, &self.model))
    }

    fn phase(&self, phase: Phase) -> &Arc<PhaseMetrics> {
        self.phases[phase as usize].get_or_init(|| {
            Arc::new(PhaseMetrics::new(&self.families, &self.totals, phase, &self.model, self.policy))
        })
    }
}

fn find_decision<'a>(known: &'a [(&'static str, IntCounter)], reason: &str) -> Option<&'a IntCounter> {
    known.iter().find(|(known, _)| *known == reason).map(|(_, counter)| counter)
}

fn find_shadow<'a>(known: &'a [ShadowCounters], policy: &str) -> Option<&'a ShadowCounters> {
    known.iter().find(|shadow| shadow.policy == policy)
}
