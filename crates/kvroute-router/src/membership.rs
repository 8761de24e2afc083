//! A worker's place in a pool: its ranks, their slots, and the tasks that follow its KV events.

use std::collections::BTreeSet;
use std::sync::Arc;

use kvroute_core::{BlockSize, ModelName, WorkerRole};
use kvroute_engine::{AnnouncedEvents, EngineKind, Probe, ServedModel};
use kvroute_metrics::WorkerType;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::TokenizerSource;
use crate::engine_load::{ToldLoad, follow};
use crate::feed::Feed;
use crate::fleet::Fleet;
use crate::plan::PoolPlan;
use crate::pool::Pool;
use crate::rank::{Rank, RankParams};
use crate::router::Shared;
use crate::source::RankSource;
use crate::sources::{self, CacheShape};
use crate::status::events_remedy;
use crate::worker::Worker;

/// A worker that has joined.
pub(crate) struct Membership {
    pool: Arc<Pool>,
    worker: Arc<Worker>,
    ranks: Vec<Arc<Rank>>,
    identity: Identity,
    feeds: JoinSet<()>,
    stop: CancellationToken,
}

/// What must not change while a worker is a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    engine: EngineKind,
    version: Option<String>,
    role: Option<WorkerRole>,
    bootstrap_port: Option<u16>,
    vocabulary: Option<u32>,
    models: Vec<ServedModel>,
    block_size: Option<BlockSize>,
    dp_ranks: u32,
    events: Vec<AnnouncedEvents>,
}

// === impl Identity ===

impl Identity {
    /// Names of what differs, for the log.
    fn differences(&self, other: &Self) -> String {
        let parts = [
            ("engine", self.engine != other.engine),
            ("version", self.version != other.version),
            ("role", self.role != other.role),
            ("bootstrap port", self.bootstrap_port != other.bootstrap_port),
            ("vocabulary", self.vocabulary != other.vocabulary),
            ("models", self.models != other.models),
            ("block size", self.block_size != other.block_size),
            ("data-parallel ranks", self.dp_ranks != other.dp_ranks),
            ("KV event addresses", self.events != other.events),
        ];
        let differing = parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name);
        differing.collect::<Vec<_>>().join(", ")
    }
}

/// What a probe says that must not change.
fn identity(found: &Probe) -> Identity {
    Identity {
        engine: found.engine,
        version: found.version.clone(),
        role: found.role,
        bootstrap_port: found.bootstrap_port,
        vocabulary: found.vocabulary,
        models: found.models.clone(),
        block_size: found.block_size,
        dp_ranks: found.dp_ranks,
        events: found.events.clone(),
    }
}

// === impl Membership ===

impl Membership {
    /// Lets a worker join the pool of the model that it serves. The error says why it cannot.
    pub(crate) async fn join(
        shared: &Shared,
        plan: &Arc<PoolPlan>,
        worker: &Arc<Worker>,
        found: &Probe,
    ) -> Result<Self, String> {
        let model = served_model(plan, found)?;
        check_block_size(plan, found)?;
        check_role(worker, found)?;
        let pool = shared.pool_for(&model, plan).map_err(|error| error.to_string())?;
        let dp_ranks = worker.config().dp_ranks.unwrap_or(found.dp_ranks).max(1);
        let block_size = found.block_size.or(plan.config().block_size).unwrap_or(BlockSize::DEFAULT);
        pool.remember(block_size).await;
        let stop = CancellationToken::new();
        let adapters = adapters(&model, found);
        let interval = plan.config().engine_load.filter(|_| found.engine.tells_load());
        let mut feeds = JoinSet::new();
        let (mut ranks, mut followed) = (Vec::new(), 0);
        for opened in sources::open(&pool, worker, found, dp_ranks).await? {
            let cache = CacheShape { slot: pool.take_slot(), block_size, capacity: found.kv_capacity };
            let rank = Arc::new(Rank::new(RankParams {
                slot: cache.slot,
                worker: Arc::clone(worker),
                engine: found.engine,
                role: worker.config().role,
                bootstrap_port: found.bootstrap_port.unwrap_or(USUAL_BOOTSTRAP_PORT),
                ranks_of_worker: dp_ranks,
                block_size,
                metrics: shared.metrics().rank(&opened.name, worker_type(worker.config().role)),
                source: sources::source_of(&pool, &opened, &cache, shared.metrics()),
                busy_above: plan.config().queue.threshold.of(found.batch_tokens),
                adapters: adapters.clone(),
                told_load: interval.map(|interval| ToldLoad::new(interval, found.kv_capacity)),
                name: opened.name,
            }));
            rank.computes(found.batch_tokens);
            followed += usize::from(opened.follower.is_some());
            if rank.source.is_some() {
                let feed = Feed::new(Arc::clone(&pool), Arc::clone(&rank));
                feeds.spawn(feed.run(opened.follower, stop.clone()));
            }
            ranks.push(rank);
        }
        if let Some(interval) = interval {
            feeds.spawn(follow(ranks.clone(), pool.client().clone(), interval, stop.clone()));
        }
        if let Some(rank) = ranks.first() {
            pool.counter().joined(&pool, rank, found.vocabulary);
            pool.counter().can_count_images(rank, found.can_render);
        }
        pool.change_fleet(|fleet| fleet.with(&ranks));
        let threshold = pool.config().queue.threshold;
        ranks.iter().for_each(|rank| rank.limit(threshold)); // It may have changed before they were seen.
        worker.set_member(true);
        pool.members().joined(worker, found, &pool.config());
        shared.worker_joined();
        tell(&pool, &ranks, found, followed);
        Ok(Self { pool, worker: Arc::clone(worker), ranks, identity: identity(found), feeds, stop })
    }

    /// What a probe says is another than when the worker joined, by name. A question that got no proper answer this
    /// time says nothing, so that a hiccup does not cost a worker all that is known of it.
    pub(crate) fn changed(&self, found: &Probe) -> Option<String> {
        let (before, now) = (&self.identity, identity(found));
        let is_same = match found.unanswered.is_empty() {
            true => before == &now,
            false => before.engine == now.engine && before.models == now.models,
        };
        (!is_same).then(|| before.differences(&now))
    }

    /// The worker takes requests: those who wait may have been waiting for it.
    pub(crate) fn is_ready(&self) {
        self.pool.gate().wake();
    }

    /// The worker did not answer for a while and does again.
    pub(crate) fn came_back(&self) {
        if let Some(rank) = self.ranks.first() {
            self.pool.counter().came_back(&self.pool, rank);
        }
        for rank in &self.ranks {
            if let Some(memory) = rank.source.as_ref().and_then(RankSource::memory) {
                memory.forget(self.pool.knowledge(), rank.slot);
            }
        }
    }

    /// Takes the worker's ranks out of the pool and frees what they owned, even if nobody waits for that any more.
    pub(crate) async fn leave(self) {
        let tasks = self.pool.streams().tasks.clone();
        if let Err(error) = tasks.spawn(self.give_back()).await {
            tracing::error!(%error, "what a worker owned was not given back");
        }
    }

    async fn give_back(mut self) {
        self.worker.set_member(false);
        self.pool.members().left(self.worker.id());
        self.pool.change_fleet(|fleet| fleet.without(&self.ranks));
        self.pool.counter().identity().left(&self.pool, self.worker.id());
        self.stop.cancel();
        while self.feeds.join_next().await.is_some() {}
        for rank in &self.ranks {
            if let Some(source) = &rank.source {
                source.close(self.pool.knowledge().now());
            }
            self.pool.knowledge().remove(rank.slot);
            self.pool.desk().forget(rank);
            rank.metrics.close();
            self.pool.give_back_slot(rank.slot);
        }
    }
}

fn served_model(plan: &PoolPlan, found: &Probe) -> Result<ModelName, String> {
    let names = || found.models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>().join(", ");
    match &plan.config().model {
        Some(model) if found.models.iter().any(|served| served.id == model.as_str()) => Ok(model.clone()),
        Some(model) => Err(format!(
            "serves {}, not the pool's model {model}; correct pool.model or the worker's url",
            names()
        )),
        None => found
            .models
            .iter()
            .find(|served| served.parent.is_none())
            .map(|served| ModelName::new(served.id.as_str()))
            .ok_or_else(|| format!("lists no base model, only adapters: {}; set pool.model", names())),
    }
}

/// Where SGLang's prefill workers are met unless they say otherwise.
const USUAL_BOOTSTRAP_PORT: u16 = 8998;

fn adapters(model: &ModelName, found: &Probe) -> BTreeSet<String> {
    let others = found.models.iter().filter(|served| served.id != model.as_str());
    others.map(|served| served.id.clone()).collect()
}

fn check_block_size(plan: &PoolPlan, found: &Probe) -> Result<(), String> {
    match (plan.config().block_size, found.block_size) {
        (Some(configured), Some(engine)) if configured != engine => Err(format!(
            "pool.block_size is {configured}, but the engine's blocks have {engine} tokens; set \"auto\" or {engine}"
        )),
        _ => Ok(()),
    }
}

/// A whole request counts as the generation that most of its time goes into.
const fn worker_type(role: WorkerRole) -> WorkerType {
    match role {
        WorkerRole::Prefill => WorkerType::Prefill,
        WorkerRole::Aggregated | WorkerRole::Decode => WorkerType::Decode,
    }
}

/// A worker that is told apart from others by its role must be able to play it.
fn check_role(worker: &Worker, found: &Probe) -> Result<(), String> {
    let (role, engine) = (worker.config().role, found.engine);
    if role != WorkerRole::Aggregated && engine.handoff().is_none() {
        return Err(format!(
            "its role is \"{}\", but no way is known in which {engine} hands KV over; set its role to \"aggregated\"",
            role.as_str()
        ));
    }
    match found.role {
        Some(told) if told != role => Err(format!(
            "its role is \"{}\", but {engine} says that it was started as \"{}\"; set its role to that, or start it anew",
            role.as_str(),
            told.as_str()
        )),
        _ => Ok(()),
    }
}

fn tell(pool: &Pool, ranks: &[Arc<Rank>], found: &Probe, followed: usize) {
    let Some(worker) = ranks.first().map(|rank| &rank.worker) else { return };
    tracing::info!(
        worker = %worker.id(), model = %pool.model(), engine = %found.engine,
        version = found.version.as_deref().unwrap_or("unknown"),
        block_size = found.block_size.map(BlockSize::get), ranks = found.dp_ranks, event_sources = followed,
        "worker joined"
    );
    for note in &found.notes {
        tracing::warn!(worker = %worker.id(), note, "worker can serve better");
    }
    if let Some(rank) = ranks.first().filter(|_| followed == 0 && pool.asks_index()) {
        let known = if rank.source.is_some() { "what the router placed there" } else { "nothing" };
        tracing::warn!(
            worker = %worker.id(), remedy = events_remedy(rank, &pool.config()), known,
            "no KV events of this worker are followed"
        );
    }
    if pool.config().tokenizer == TokenizerSource::Engine && pool.counts() && !found.can_tokenize {
        tracing::warn!(
            worker = %worker.id(), remedy = "set pool.tokenizer to the model's folder",
            "worker cannot tokenize: its requests stay uncounted"
        );
    }
}

// === impl Fleet ===

impl Fleet {
    fn with(&self, ranks: &[Arc<Rank>]) -> Self {
        Self::of(self.ranks.iter().chain(ranks).cloned().collect())
    }

    fn without(&self, ranks: &[Arc<Rank>]) -> Self {
        let leaves = |rank: &&Arc<Rank>| ranks.iter().any(|left| Arc::ptr_eq(left, rank));
        Self::of(self.ranks.iter().filter(|rank| !leaves(rank)).cloned().collect())
    }
}
