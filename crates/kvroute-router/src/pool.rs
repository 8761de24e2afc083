//! Everything that serves one model: its ranks, what the index knows of them, and who decides.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use kvroute_core::{BlockSize, ModelName, Phase, RankSlot, WorkerRole};
use kvroute_engine::{EngineKind, HttpClient};
use kvroute_history::History;
use kvroute_metrics::{HistoryBounds, OverheadMetrics, PoolLabels, PoolMetrics, StageMetrics};
use kvroute_openai::ClientRequest;
use kvroute_select::{PickReason, Policy, Selector, policy};
use parking_lot::Mutex;

use crate::comparison::Comparison;
use crate::config::{CountMode, OnNoPrefill, PoolConfig, Timeouts};
use crate::counting::PromptCounter;
use crate::decisions::DecisionLog;
use crate::desk::Desk;
use crate::error::{ErrorKind, RouteError};
use crate::fleet::Fleet;
use crate::gate::Gate;
use crate::hints::{Hints, Pin};
use crate::history::PoolHistory;
use crate::knowledge::Knowledge;
use crate::lane::Lane;
use crate::log_gate::LogGate;
use crate::plan::{PoolPlan, RouterError};
use crate::rank::Rank;
use crate::relay::Streams;
use crate::resending::Resending;
use crate::router::Shared;
use crate::seats::Seats;
use crate::snapshots::SnapshotFile;
use crate::upstream::{self, Upstream};
use crate::worker::Worker;

/// Longest time that a refused client is asked to stay away.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// One served model.
#[derive(Debug)]
pub(crate) struct Pool {
    model: ModelName,
    plan: Arc<PoolPlan>,
    counter: PromptCounter,
    desk: Arc<Desk>,
    gate: Gate<Seats>,
    decisions: DecisionLog,
    knowledge: Knowledge,
    /// `None` where nothing is remembered of what was computed.
    history: Option<Arc<PoolHistory>>,
    asks_index: bool,
    /// Whether it has workers that compute prompts for others.
    hands_over: bool,
    fleet: Arc<ArcSwap<Fleet>>,
    slots: Mutex<BTreeSet<u32>>,
    members: Comparison,
    metrics: PoolMetrics,
    stages: [StageMetrics; Phase::ALL.len()],
    overhead: OverheadMetrics,
    client: HttpClient,
    upstream: Upstream,
    streams: Streams,
    resending: Resending,
    missing_reports: LogGate,
    unsalted: LogGate,
}

// === impl Pool ===

impl Pool {
    /// A pool without ranks.
    pub(crate) fn new(model: ModelName, plan: Arc<PoolPlan>, shared: &Shared) -> Result<Self, RouterError> {
        let (config, metrics) = (&*plan.config(), shared.metrics());
        let named = |name: &String| policy::by_name(name, &config.policy_options);
        let policy = named(&config.policy)?;
        let shadows = config.shadow.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        let asks_index = asks_index(config, policy.as_ref());
        let reasons = reasons_of(policy.as_ref());
        let set =
            remembers(config, policy.as_ref()).then(|| History::new(config.history.bytes, shared.seed()));
        let shadow_names: Vec<_> = shadows.iter().map(|shadow| shadow.name()).collect();
        let labels = PoolLabels {
            model: &model,
            policy: policy.name(),
            reasons: &reasons,
            shadows: &shadow_names,
            phases: plan.phases(),
            counts_input: config.count == CountMode::Exact,
            history: set
                .as_ref()
                .map(|set| HistoryBounds { capacity: set.capacity(), bytes: set.capacity_bytes() }),
        };
        let known_phase =
            |phase| *labels.phases.iter().find(|known| **known == phase).unwrap_or(&Phase::Aggregated);
        let desk = Arc::new(Desk::new(Selector::new(policy, shadows), shared.seed()));
        let fleet = Arc::new(ArcSwap::default());
        let seats = Seats::new(Arc::clone(&desk), Arc::clone(&fleet), Arc::clone(&plan.crew));
        let pool_metrics = metrics.pool(&labels);
        if config.migrations > 0 {
            pool_metrics.migrates();
        }
        let history = set.zip(pool_metrics.history()).map(|(empty, handles)| {
            let cluster = shared.cluster().cloned();
            Arc::new(PoolHistory::new(model.clone(), empty, cluster, Arc::clone(handles)))
        });
        Ok(Self {
            stages: Phase::ALL.map(|phase| metrics.stages(known_phase(phase))),
            overhead: metrics.overhead(),
            counter: PromptCounter::new(config.count, plan.tokenizer.clone()),
            asks_index,
            hands_over: labels.phases.contains(&Phase::Prefill),
            desk,
            gate: Gate::new(seats, &config.queue, pool_metrics.queue()),
            metrics: pool_metrics,
            decisions: DecisionLog::new(&config.decisions),
            knowledge: Knowledge::new(config.index.bytes),
            history,
            fleet,
            slots: Mutex::default(),
            members: Comparison::default(),
            client: upstream::client(config.timeouts.connect, &config.tls),
            upstream: Upstream::new(config.timeouts.connect, &config.tls),
            streams: shared.streams().clone(),
            resending: Resending::default(),
            missing_reports: LogGate::default(),
            unsalted: LogGate::default(),
            model,
            plan,
        })
    }

    /// The model that it serves.
    pub(crate) const fn model(&self) -> &ModelName {
        &self.model
    }

    /// Whether it was made by this plan.
    pub(crate) fn is_of(&self, plan: &Arc<PoolPlan>) -> bool {
        Arc::ptr_eq(&self.plan, plan)
    }

    /// What it was made by.
    pub(crate) fn plan(&self) -> &PoolPlan {
        &self.plan
    }

    /// As configured at this moment. Not to be held while something is awaited.
    pub(crate) fn config(&self) -> Guard<Arc<PoolConfig>> {
        self.plan.config()
    }

    /// Limits of an upstream call that begins now.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.config().timeouts
    }

    /// For small calls to its workers.
    pub(crate) const fn client(&self) -> &HttpClient {
        &self.client
    }

    /// What its requests reach its workers by.
    pub(crate) const fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// What guards and ends its streams.
    pub(crate) const fn streams(&self) -> &Streams {
        &self.streams
    }

    /// What is known of requests that were sent again.
    pub(crate) const fn resending(&self) -> &Resending {
        &self.resending
    }

    /// A pool that was discovered and has lost its last worker: it may never come back.
    pub(crate) fn is_vacant(&self) -> bool {
        self.config().model.is_none() && self.fleet.load().ranks.is_empty()
    }

    /// Where load is booked.
    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// What keeps requests in line while every rank is busy.
    pub(crate) const fn gate(&self) -> &Gate<Seats> {
        &self.gate
    }

    /// The latest decisions.
    pub(crate) const fn decisions(&self) -> &DecisionLog {
        &self.decisions
    }

    /// Handles of the stages of an attempt in this phase.
    pub(crate) const fn stages(&self, phase: Phase) -> &StageMetrics {
        &self.stages[phase as usize]
    }

    /// The phase that a request of this pool begins with, as far as is known before it is placed.
    pub(crate) const fn first_phase(&self) -> Phase {
        if self.hands_over { Phase::Prefill } else { Phase::Aggregated }
    }

    /// Whether some worker, or a pair of them, could serve a request now.
    pub(crate) fn takes_requests(&self) -> bool {
        let fleet = self.fleet();
        // A worker that failed gets well only by being tried: the router must not go away for that.
        let is_ready = |rank: &Rank| rank.worker.may_be_tried();
        let by_one = || fleet.of_phase(Phase::Aggregated).ranks.iter().any(|rank| is_ready(rank));
        let is_strict = self.hands_over() && self.config().on_no_prefill == OnNoPrefill::Strict;
        self.hands_over() && fleet.has_pair(is_ready) || !is_strict && by_one()
    }

    /// The phase that no worker takes now, of a pool that serves nobody.
    pub(crate) fn lacking_phase(&self) -> Phase {
        let fleet = self.fleet();
        let takes = |phase| fleet.of_phase(phase).ranks.iter().any(|rank| rank.worker.may_be_tried());
        match self.first_phase() {
            Phase::Prefill if takes(Phase::Prefill) => Phase::Decode,
            first => first,
        }
    }

    /// Whether it has workers that compute prompts for others.
    pub(crate) const fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Handles of what a decision costs.
    pub(crate) const fn overhead(&self) -> &OverheadMetrics {
        &self.overhead
    }

    /// Handles of everything with the model as a label.
    pub(crate) const fn metrics(&self) -> &PoolMetrics {
        &self.metrics
    }

    /// The prompt counter.
    pub(crate) const fn counter(&self) -> &PromptCounter {
        &self.counter
    }

    /// Whether the caller named a worker that there is or may come, if it named one. A configured worker that has not
    /// joined is waited for, unless it is in one of the pools already and is not what was named.
    pub(crate) fn check_pin(&self, hints: &Hints, pools: &[Arc<Self>]) -> Result<(), RouteError> {
        let Some(pin) = &hints.pin else { return Ok(()) };
        let is_there = self.fleet().ranks.iter().any(|rank| pin.names(&rank.name));
        if is_there || self.awaited(pools).any(|worker| pin.may_name(worker.config())) {
            return Ok(());
        }
        Err(self.unknown_worker(pin, pools))
    }

    /// The caller named a worker that is none of those that there are or may come.
    pub(crate) fn unknown_worker(&self, pin: &Pin, pools: &[Arc<Self>]) -> RouteError {
        let fleet = self.fleet();
        let joined = fleet.ranks.iter().map(|rank| rank.name.to_string());
        let names: Vec<_> = joined.chain(self.awaited(pools).map(|worker| worker.id().to_string())).collect();
        RouteError::client(ErrorKind::UnknownWorker {
            named: pin.to_string(),
            model: self.model.to_string(),
            workers: names.join(", "),
        })
    }

    /// Configured workers that are in none of the pools yet.
    fn awaited(&self, pools: &[Arc<Self>]) -> impl Iterator<Item = Arc<Worker>> + use<> {
        let has_joined = |worker: &Arc<Worker>| {
            let id = worker.id();
            pools.iter().any(|pool| pool.fleet.load().ranks.iter().any(|rank| rank.name.worker == *id))
        };
        let crew = self.plan.crew.now();
        crew.iter().filter(|worker| !has_joined(worker)).cloned().collect::<Vec<_>>().into_iter()
    }

    /// When a refused request may try again: once those who stand in line have been served, too.
    pub(crate) fn retry_after(&self, lane: &Lane) -> Duration {
        let (fleet, is_ready) = (self.fleet(), |rank: &&Arc<Rank>| rank.worker.takes_requests());
        let (usable, all) = (fleet.usable(lane), fleet.ranks.iter().filter(is_ready));
        let time = self.desk.time_to_room(usable, all, self.gate.uncached());
        time.clamp(Duration::from_secs(1), LONGEST_RETRY_AFTER)
    }

    /// What is known of the workers' caches.
    pub(crate) const fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// What was ever computed; `None` where it is not remembered.
    pub(crate) const fn history(&self) -> Option<&Arc<PoolHistory>> {
        self.history.as_ref()
    }

    /// A worker with blocks of this size is about to join: what is remembered of its model should be there before its first
    /// request.
    pub(crate) async fn remember(&self, size: BlockSize) {
        if let Some(history) = &self.history {
            history.get_ready(size, self.plan.history.as_ref(), &self.streams.cut).await;
        }
    }

    /// The block sizes that prompts are hashed by: those of its ranks, and the one that its history knows them by.
    pub(crate) fn block_sizes(&self, fleet: &Fleet) -> Vec<BlockSize> {
        let mut sizes = fleet.block_sizes();
        let of_history = self.history.as_ref().and_then(|history| history.size());
        sizes.extend(of_history.filter(|size| !sizes.contains(size)));
        sizes
    }

    /// The file that keeps the index over a restart.
    pub(crate) fn snapshot(&self) -> Option<&SnapshotFile> {
        self.plan.snapshot.as_ref()
    }

    /// Whether a worker has joined it.
    pub(crate) fn has(&self, worker: &Arc<Worker>) -> bool {
        self.fleet.load().ranks.iter().any(|rank| Arc::ptr_eq(&rank.worker, worker))
    }

    /// Attempts that still run on a worker that has joined.
    pub(crate) fn running_on(&self, worker: &Arc<Worker>) -> u64 {
        let fleet = self.fleet.load();
        self.desk.running(fleet.ranks.iter().filter(|rank| Arc::ptr_eq(&rank.worker, worker)))
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

    /// The adapter that a request asks for: every name that is not the model's own. Whether anybody serves it is for the
    /// fleet of the moment to say; one that has lost it must not take the request for the model itself.
    pub(crate) fn adapter_of<'a>(&self, request: &'a ClientRequest) -> Option<&'a str> {
        let is_own = |name: &str| name == self.model.as_str() || self.is_alias(name);
        request.model.as_deref().filter(|name| !is_own(name))
    }

    fn is_alias(&self, name: &str) -> bool {
        self.config().aliases.iter().any(|alias| alias == name)
    }

    /// Replaces the ranks by what `change` makes of them.
    pub(crate) fn change_fleet(&self, change: impl Fn(&Fleet) -> Fleet) {
        self.fleet.rcu(|fleet| change(fleet));
        if self.asks_index && self.fleet.load().ranks.iter().any(|rank| rank.source.is_some()) {
            self.metrics.index_view_exists();
        }
    }

    /// What its members say of themselves.
    pub(crate) const fn members(&self) -> &Comparison {
        &self.members
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
        self.config().count == CountMode::Exact
    }

    /// What kind of engine the pool has: that of its first rank.
    pub(crate) fn engine_kind(&self) -> Option<EngineKind> {
        self.fleet.load().ranks.first().map(|rank| rank.engine)
    }

    /// The worker's engine cannot keep the caches of tenants apart.
    pub(crate) fn warn_unsalted(&self, rank: &Rank) {
        let Some(unlogged) = self.unsalted.open() else { return };
        tracing::warn!(
            model = %self.model, worker = %rank.name, engine = %rank.engine, unlogged,
            "worker cannot keep tenants apart: its engine knows no cache_salt, so how fast it answers may tell one tenant \
             what another one has asked; serve tenants by vllm or sglang"
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

/// Whether the decisions of a pool, or what stands beside them, look the index up.
pub(crate) fn asks_index(config: &PoolConfig, policy: &dyn Policy) -> bool {
    policy.uses_index() || config.observe || !config.shadow.is_empty()
}

/// The phases that attempts of a pool can have.
pub(crate) fn phases_of(config: &PoolConfig) -> &'static [Phase] {
    match config.workers.iter().any(|worker| worker.role == WorkerRole::Prefill) {
        true => &Phase::ALL,
        false => &[Phase::Aggregated],
    }
}

/// Whether a pool remembers what was computed: F1 belongs to attempts that an index was asked for.
pub(crate) fn remembers(config: &PoolConfig, policy: &dyn Policy) -> bool {
    config.history.enabled && asks_index(config, policy)
}

/// Every reason that a policy can give, and those that any policy may give.
pub(crate) fn reasons_of(policy: &dyn Policy) -> Vec<&'static str> {
    let common = [PickReason::OnlyCandidate, PickReason::Pinned];
    policy.reasons().iter().copied().chain(common).map(PickReason::as_str).collect()
}
