//! One KV cache of a worker that has joined a pool.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kvroute_core::{BlockSize, Phase, RankKey, RankSlot, Tokens, WorkerRank, WorkerRole};
use kvroute_engine::{EngineKind, Handoff};
use kvroute_metrics::RankMetrics;
use kvroute_select::ForeignLoad;
use tokio::time::Instant;

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
    /// Booked prefill tokens above which it is busy; `None` where it never is.
    pub(crate) busy_above: Option<Tokens>,
    /// Names of the adapters that it serves.
    pub(crate) adapters: BTreeSet<String>,
    /// Lets a complaint about its events through once in a while.
    pub(crate) bad_events: LogGate,
    block_size: AtomicU32,
}

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
            busy_above: params.busy_above,
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
