//! One KV cache of a worker that has joined a pool.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kvroute_core::{BlockSize, Phase, RankKey, RankSlot, Tokens, WorkerRank, WorkerRole};
use kvroute_engine::{EngineKind, Handoff};
use kvroute_metrics::RankMetrics;
use kvroute_select::ForeignLoad;
use tokio::time::Instant;

use crate::config::BusyThreshold;
use crate::engine_load::ToldLoad;
use crate::log_gate::LogGate;
use crate::source::RankSource;
use crate::worker::Worker;

/// One rank, shared by the decision, the relay, its feed and the admin plane.
#[derive(Debug)]
pub(crate) struct Rank {
    /// Dense number in the pool.
    pub(crate) slot: RankSlot,
    /// Worker and data-parallel rank.
    pub(crate) name: WorkerRank,
    /// Hash of its name.
    pub(crate) key: RankKey,
    /// The server.
    pub(crate) worker: Arc<Worker>,
    /// What kind of server it is.
    pub(crate) engine: EngineKind,
    /// Which part of a request it takes.
    pub(crate) role: WorkerRole,
    /// Where workers that take over its KV meet it, with engines that meet.
    pub(crate) bootstrap_port: u16,
    /// Ranks of the server: with more than one, a request must name its rank.
    pub(crate) ranks_of_worker: u32,
    /// Its series; they leave with it.
    pub(crate) metrics: RankMetrics,
    /// How its cache is known; `None` where only events are wanted and the engine publishes none.
    pub(crate) source: Option<RankSource>,
    /// What its engine says of its load; `None` where it is not asked.
    pub(crate) told_load: Option<ToldLoad>,
    /// Booked prefill tokens above which it is busy; [`NEVER_BUSY`] where it never is.
    busy_above: AtomicU64,
    /// Tokens that its engine computes in a step; zero where it does not tell.
    step: AtomicU64,
    /// Names of the adapters that it serves.
    pub(crate) adapters: BTreeSet<String>,
    /// Lets a complaint about its events through once in a while.
    pub(crate) bad_events: LogGate,
    block_size: AtomicU32,
}

/// The limit of a rank that is never busy.
const NEVER_BUSY: u64 = u64::MAX;

/// What a rank is made of.
#[derive(Debug)]
pub(crate) struct RankParams {
    pub(crate) slot: RankSlot,
    pub(crate) name: WorkerRank,
    pub(crate) worker: Arc<Worker>,
    pub(crate) engine: EngineKind,
    pub(crate) role: WorkerRole,
    pub(crate) bootstrap_port: u16,
    pub(crate) ranks_of_worker: u32,
    pub(crate) block_size: BlockSize,
    pub(crate) metrics: RankMetrics,
    pub(crate) source: Option<RankSource>,
    pub(crate) told_load: Option<ToldLoad>,
    pub(crate) busy_above: Option<Tokens>,
    pub(crate) adapters: BTreeSet<String>,
}

// === impl Rank ===

impl Rank {
    /// A rank that has just joined.
    pub(crate) fn new(params: RankParams) -> Self {
        let RankParams { slot, name, worker, engine, ranks_of_worker, block_size, metrics, source, .. } =
            params;
        Self {
            slot,
            key: name.key(),
            name,
            worker,
            engine,
            role: params.role,
            bootstrap_port: params.bootstrap_port,
            ranks_of_worker,
            metrics,
            source,
            told_load: params.told_load,
            busy_above: AtomicU64::new(busy_bits(params.busy_above)),
            step: AtomicU64::new(0),
            adapters: params.adapters,
            bad_events: LogGate::default(),
            block_size: AtomicU32::new(block_size.get()),
        }
    }

    /// Whether it takes attempts of this phase. Where both workers of a request must be told at once, one that takes over
    /// serves nothing alone.
    pub(crate) fn takes(&self, phase: Phase) -> bool {
        let waits_for_another =
            self.role == WorkerRole::Decode && self.engine.handoff() == Some(Handoff::Bootstrap);
        self.role.takes(phase) && !(phase == Phase::Aggregated && waits_for_another)
    }

    /// Size of its blocks: the engine's own word, or what its events showed.
    pub(crate) fn block_size(&self) -> BlockSize {
        BlockSize::new(self.block_size.load(Ordering::Relaxed)).unwrap_or(BlockSize::DEFAULT)
    }

    /// Booked prefill tokens above which it is busy; `None` where it never is.
    pub(crate) fn busy_above(&self) -> Option<Tokens> {
        match self.busy_above.load(Ordering::Relaxed) {
            NEVER_BUSY => None,
            limit => Some(Tokens::new(limit)),
        }
    }

    /// Its engine computes so many tokens in a step; `None` where it does not tell.
    pub(crate) fn computes(&self, step: Option<Tokens>) {
        self.step.store(step.map_or(0, Tokens::get), Ordering::Relaxed);
    }

    /// From now on it is busy by this threshold.
    pub(crate) fn limit(&self, threshold: BusyThreshold) {
        let step = Some(Tokens::new(self.step.load(Ordering::Relaxed))).filter(|step| !step.is_zero());
        self.busy_above.store(busy_bits(threshold.of(step)), Ordering::Relaxed);
    }

    /// The events showed another block size than the probe.
    pub(crate) fn learn_block_size(&self, size: BlockSize) {
        let before = self.block_size.swap(size.get(), Ordering::Relaxed);
        if before != size.get() {
            tracing::info!(rank = %self.name, before, now = size.get(), "block size learned from KV events");
        }
    }

    /// Whether its cached prefix may lower its cost.
    pub(crate) fn has_credit(&self) -> bool {
        self.source.as_ref().is_some_and(RankSource::has_credit)
    }

    /// Whether requests for an adapter may go there.
    pub(crate) fn serves_adapter(&self, name: &str) -> bool {
        self.adapters.contains(name)
    }

    /// What its engine says of its load, where it is asked.
    pub(crate) fn foreign_load(&self) -> ForeignLoad {
        self.told_load.as_ref().map(|told| told.foreign(Instant::now())).unwrap_or_default()
    }
}

/// A limit of booked tokens, or that there is none.
fn busy_bits(limit: Option<Tokens>) -> u64 {
    limit.map_or(NEVER_BUSY, Tokens::get)
}

// === impl BusyThreshold ===

/// Steps of its engine that a rank may have waiting before it counts as busy: enough that it never runs dry, few enough
/// that whoever comes next is placed late, when more is known.
const STEPS_AHEAD: u64 = 8;

/// Tokens of one step of an engine that does not tell.
const USUAL_STEP: Tokens = Tokens::new(8192);

impl BusyThreshold {
    /// Booked prefill tokens above which a rank is busy whose engine computes so many in a step.
    pub(crate) fn of(self, step: Option<Tokens>) -> Option<Tokens> {
        match self {
            Self::Off => None,
            Self::Tokens(tokens) => Some(tokens),
            Self::Auto => {
                let step = step.unwrap_or(USUAL_STEP);
                Some(Tokens::new(step.get().saturating_mul(STEPS_AHEAD)))
            }
        }
    }
}
