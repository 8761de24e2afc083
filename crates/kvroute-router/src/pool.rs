//! Everything that serves one model: its ranks, what the index knows of them, and who decides.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kvroute_core::{BlockSize, ModelName, Namespace, Phase, RankSlot, Tokens};
use kvroute_engine::{EngineKind, RemoteTokenizer};
use kvroute_funnel::{AttemptLedger, Count, Opening, ReportExpectation};
use kvroute_index::ReportedIndex;
use kvroute_metrics::{
    DecisionMarks, OverheadMetrics, PoolLabels, PoolMetrics, RequestRecorder, Stage, StageMetrics,
};
use kvroute_openai::ClientRequest;
use kvroute_select::{CachedTokens, NoCandidate, PickReason, policy};
use kvroute_tokenize::{EncodeError, EncodeErrorKind, PromptTokenizer};
use parking_lot::{Mutex, RwLock};
use tokio::time::{Instant, timeout};

use crate::attempt::{Attempt, AttemptParams};
use crate::cached_view::HashedPrompts;
use crate::config::{CountMode, PoolConfig, Timeouts};
use crate::counting::{Counting, PromptCounter, TokenizedPrompts};
use crate::desk::{Desk, Placement, Question};
use crate::log_gate::LogGate;
use crate::relay::Streams;
use crate::router::{RouterError, Shared};
use crate::upstream::{self, UpstreamClient};
use crate::worker::Rank;

/// Workers that are asked for the ids of one prompt before it goes uncounted.
const WORKERS_ASKED: usize = 2;

/// A worker that takes longer for the ids of a prompt hangs.
const TOKENIZE_PATIENCE: Duration = Duration::from_secs(3);

/// One served model.
#[derive(Debug)]
pub(crate) struct Pool {
    model: ModelName,
    config: PoolConfig,
    counter: PromptCounter,
    desk: Desk,
    index: RwLock<ReportedIndex>,
    asks_index: bool,
    fleet: ArcSwap<Fleet>,
    slots: Mutex<BTreeSet<u32>>,
    metrics: PoolMetrics,
    stages: StageMetrics,
    overhead: OverheadMetrics,
    client: UpstreamClient,
    streams: Streams,
    next_tokenizer: AtomicUsize,
    mismatches: LogGate,
    missing_reports: LogGate,
}

/// The ranks of one moment. A decision sees one fleet from start to end.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// In the order in which they joined.
    pub(crate) ranks: Vec<Arc<Rank>>,
    /// Their slots, in the same order.
    pub(crate) slots: Vec<RankSlot>,
    /// Further names that the workers serve the model by: adapters.
    pub(crate) adapters: BTreeSet<String>,
}

/// What a request needs to be placed.
pub(crate) struct Arrival<'a> {
    pub(crate) request: &'a ClientRequest,
    pub(crate) counting: Counting,
    pub(crate) recorder: RequestRecorder,
    pub(crate) received: Instant,
}

// === impl Pool ===

impl Pool {
    /// A pool without ranks.
    pub(crate) fn new(
        model: ModelName,
        config: PoolConfig,
        tokenizer: Option<Arc<PromptTokenizer>>,
        shared: &Shared,
    ) -> Result<Self, RouterError> {
        let metrics = shared.metrics();
        let policy = policy::by_name(&config.policy)?;
        let reasons = PickReason::ALL.map(PickReason::as_str);
        let labels = PoolLabels {
            model: &model,
            policy: policy.name(),
            reasons: &reasons,
            phases: &[Phase::Aggregated],
            counts_input: config.count == CountMode::Exact,
        };
        Ok(Self {
            metrics: metrics.pool(&labels),
            stages: metrics.stages(Phase::Aggregated),
            overhead: metrics.overhead(),
            counter: PromptCounter::new(config.count, tokenizer),
            asks_index: policy.uses_index() || config.observe,
            desk: Desk::new(policy, config.weights, shared.seed()),
            index: RwLock::new(ReportedIndex::new()),
            fleet: ArcSwap::default(),
            slots: Mutex::default(),
            client: upstream::client(config.timeouts.connect),
            streams: shared.streams().clone(),
            next_tokenizer: AtomicUsize::new(0),
            mismatches: LogGate::default(),
            missing_reports: LogGate::default(),
            model,
            config,
        })
    }

    /// The model that it serves.
    pub(crate) const fn model(&self) -> &ModelName {
        &self.model
    }

    /// As configured.
    pub(crate) const fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Limits of an upstream call.
    pub(crate) const fn timeouts(&self) -> &Timeouts {
        &self.config.timeouts
    }

    /// The client towards its workers.
    pub(crate) const fn client(&self) -> &UpstreamClient {
        &self.client
    }

    /// What guards and ends its streams.
    pub(crate) const fn streams(&self) -> &Streams {
        &self.streams
    }

    /// A pool that was discovered and has lost its last worker: it may never come back.
    pub(crate) fn is_vacant(&self) -> bool {
        self.config.model.is_none() && self.fleet.load().ranks.is_empty()
    }

    /// Where load is booked.
    pub(crate) const fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Handles of the stages of a request.
    pub(crate) const fn stages(&self) -> &StageMetrics {
        &self.stages
    }

    /// Handles of everything with the model as a label.
    pub(crate) const fn metrics(&self) -> &PoolMetrics {
        &self.metrics
    }

    /// The prompt counter.
    pub(crate) const fn counter(&self) -> &PromptCounter {
        &self.counter
    }

    /// What the index knows.
    pub(crate) const fn index(&self) -> &RwLock<ReportedIndex> {
        &self.index
    }

    /// The ranks of this moment.
    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        self.fleet.load_full()
    }

    /// Whether a request model name means this pool.
    pub(crate) fn serves(&self, name: &str) -> bool {
        self.model.as_str() == name || self.is_alias(name) || self.fleet.load().adapters.contains(name)
    }

    /// The name to ask a worker for, where it differs from the client's.
    pub(crate) fn model_for_worker(&self, request: &ClientRequest) -> Option<&str> {
        let asked = request.model.as_deref()?;
        (asked != self.model.as_str() && self.is_alias(asked)).then_some(self.model.as_str())
    }

    fn is_alias(&self, name: &str) -> bool {
        self.config.aliases.iter().any(|alias| alias == name)
    }

    /// Replaces the ranks by what `change` makes of them.
    pub(crate) fn change_fleet(&self, change: impl Fn(&Fleet) -> Fleet) {
        self.fleet.rcu(|fleet| change(fleet));
        if self.asks_index && self.fleet.load().ranks.iter().any(|rank| rank.has_source()) {
            self.metrics.index_view_exists();
        }
    }

    /// The lowest slot that no rank has: slots stay dense.
    pub(crate) fn take_slot(&self) -> RankSlot {
        let mut taken = self.slots.lock();
        let free = (0..).find(|slot| !taken.contains(slot)).unwrap_or_default();
        taken.insert(free);
        RankSlot::new(free)
    }

    /// A rank's slot may serve another one.
    pub(crate) fn give_back_slot(&self, slot: RankSlot) {
        self.slots.lock().remove(&slot.get());
    }

    /// Whether decisions or `observe` look the index up.
    pub(crate) const fn asks_index(&self) -> bool {
        self.asks_index
    }

    /// Whether prompts are counted.
    pub(crate) fn counts(&self) -> bool {
        self.config.count == CountMode::Exact
    }

    /// What kind of engine the pool has: that of its first rank.
    pub(crate) fn engine_kind(&self) -> Option<EngineKind> {
        self.fleet.load().ranks.first().map(|rank| rank.engine)
    }

    /// Asks a worker for the ids of a prompt, each in its turn; a second one if the first does not answer.
    pub(crate) async fn ask_worker_for_ids(
        &self,
        request: &ClientRequest,
    ) -> Result<TokenizedPrompts, EncodeError> {
        let fleet = self.fleet();
        let ready: Vec<_> = fleet.ranks.iter().filter(|rank| rank.worker.takes_requests()).collect();
        let first = self.next_tokenizer.fetch_add(1, Ordering::Relaxed) % ready.len().max(1);
        let mut failure = "no worker answers that could be asked for token ids".to_owned();
        for rank in ready.iter().cycle().skip(first).take(ready.len().min(WORKERS_ASKED)) {
            let remote = RemoteTokenizer::new(&self.client, &rank.worker.config().url, rank.engine);
            match timeout(TOKENIZE_PATIENCE, remote.encode(&self.model, &request.prompt)).await {
                Ok(Ok(prompts)) => return Ok(prompts),
                Ok(Err(error)) => failure = format!("worker {}: {error}", rank.name.worker),
                Err(_elapsed) => {
                    rank.worker.doubt.notify_one();
                    failure = format!("worker {}: no answer within {TOKENIZE_PATIENCE:?}", rank.name.worker);
                }
            }
        }
        Err(EncodeError { kind: EncodeErrorKind::Tokenizer, message: failure })
    }

    /// Picks a rank, books the attempt and opens its ledger.
    pub(crate) fn place(
        self: &Arc<Self>,
        arrival: Arrival<'_>,
    ) -> Result<Attempt, (NoCandidate, RequestRecorder)> {
        let Arrival { request, counting, recorder, received } = arrival;
        let stage = self.stages.enter(Stage::Route);
        let mut decision = DecisionTimer::start();
        let fleet = self.fleet();
        let (hashed, cached) = self.look_up(&fleet, request, &counting, &mut decision);
        let question = Question {
            ranks: &fleet.ranks,
            cached: cached.as_deref(),
            hashed: &hashed,
            prompt_lengths: &counting.prompt_lengths(),
            choices: request.choices,
        };
        let placement = match self.desk.place(&question) {
            Ok(placement) => placement,
            Err(none) => return Err((none, recorder)),
        };
        stage.passed(decision.elapsed());
        self.overhead.decided(&decision.scheduled());
        self.metrics.decided(placement.reason.as_str());
        self.sample_overlap(&placement, &question);
        let opening = opening(&counting, request, &placement);
        let Placement { attempt: id, rank, .. } = placement;
        let ledger = AttemptLedger::open(opening, self.metrics.attempt(Phase::Aggregated, &rank.metrics));
        Ok(Attempt::new(AttemptParams { pool: Arc::clone(self), rank, id, received, ledger, recorder }))
    }

    fn look_up(
        &self,
        fleet: &Fleet,
        request: &ClientRequest,
        counting: &Counting,
        decision: &mut DecisionTimer,
    ) -> (HashedPrompts, Option<Vec<CachedTokens>>) {
        let Counting::Exact(prompts) = counting else { return (HashedPrompts::default(), None) };
        if !self.asks_index || !fleet.ranks.iter().any(|rank| rank.has_source()) {
            return (HashedPrompts::default(), None);
        }
        let namespace = Namespace::new(request.cache_salt.as_deref(), self.adapter_of(fleet, request));
        let hashed =
            HashedPrompts::new(prompts, &fleet.block_sizes(), namespace, || decision.blocks_hashed());
        decision.sequences_hashed();
        let cached = hashed.cached_on(&self.index.read(), &fleet.slots);
        decision.matches_found();
        (hashed, Some(cached))
    }

    fn adapter_of<'a>(&self, fleet: &Fleet, request: &'a ClientRequest) -> Option<&'a str> {
        request.model.as_deref().filter(|name| fleet.adapters.contains(*name))
    }

    fn sample_overlap(&self, placement: &Placement, question: &Question<'_>) {
        if let Some(overlap) = question.overlap(placement, &self.config.weights) {
            self.metrics.selected(Phase::Aggregated, overlap);
        }
    }

    /// The worker counts other tokens than the router: every cache hit of the pool is at stake.
    pub(crate) fn warn_mismatch(&self, rank: &Rank, router: Option<Tokens>, engine: Option<u64>) {
        let Some(unlogged) = self.mismatches.open() else { return };
        let (router, engine) = (router.unwrap_or_default().get(), engine.unwrap_or_default());
        tracing::warn!(
            model = %self.model, worker = %rank.name, router, engine, unlogged,
            "worker counts another prompt length than the router: wrong tokenizer or chat template; \
             set pool.tokenizer to the worker's model folder or to \"engine\""
        );
    }

    /// The worker completed a request without saying what it reused.
    pub(crate) fn warn_missing_report(&self, rank: &Rank) {
        let Some(unlogged) = self.missing_reports.open() else { return };
        tracing::warn!(
            model = %self.model, worker = %rank.name, remedy = rank.engine.report_remedy(), unlogged,
            "worker does not report reused tokens: F4 is blind for it"
        );
    }
}

fn opening(counting: &Counting, request: &ClientRequest, placement: &Placement) -> Opening {
    let count = match counting {
        Counting::Exact(prompts) => Count::Exact {
            input: prompts.iter().map(|ids| Tokens::from(ids.len())).sum(),
            cached: placement.stages,
        },
        Counting::Uncounted(reason, _) => Count::Uncounted(*reason),
    };
    let ambiguous = request.prompt_list && !placement.rank.engine.sums_reuse_of_prompt_lists();
    let reports = if ambiguous { ReportExpectation::Ambiguous } else { ReportExpectation::Expected };
    Opening { count, reports }
}

// === impl Fleet ===

impl Fleet {
    /// A fleet of these ranks.
    pub(crate) fn of(ranks: Vec<Arc<Rank>>, adapters: BTreeSet<String>) -> Self {
        let slots = ranks.iter().map(|rank| rank.slot).collect();
        Self { ranks, slots, adapters }
    }

    /// The distinct block sizes of its ranks.
    pub(crate) fn block_sizes(&self) -> Vec<BlockSize> {
        let sizes: BTreeSet<_> = self.ranks.iter().map(|rank| rank.block_size()).collect();
        sizes.into_iter().collect()
    }
}

/// Reads the clock at the end of each part of a decision.
#[derive(Debug)]
struct DecisionTimer {
    started: Instant,
    marks: DecisionMarks,
}

// === impl DecisionTimer ===

impl DecisionTimer {
    fn start() -> Self {
        Self { started: Instant::now(), marks: DecisionMarks::default() }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn blocks_hashed(&mut self) {
        self.marks.block_hashing = Some(self.elapsed());
    }

    fn sequences_hashed(&mut self) {
        self.marks.sequence_hashing = Some(self.elapsed());
    }

    fn matches_found(&mut self) {
        self.marks.find_matches = Some(self.elapsed());
    }

    fn scheduled(mut self) -> DecisionMarks {
        self.marks.scheduled = self.elapsed();
        self.marks
    }
}
