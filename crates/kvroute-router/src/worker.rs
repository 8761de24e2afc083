//! One inference server and its ranks, as the router sees them.
//!
//! A worker exists from the configuration on; its ranks exist once a probe has told what it serves. Both are
//! shared by the decision, the relay and the admin plane, so what changes is atomic or behind a short lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use arc_swap::ArcSwap;
use kvroute_core::{BlockSize, RankSlot, WorkerId, WorkerRank};
use kvroute_engine::EngineKind;
use kvroute_engine::events::{SourceReason, SourceStatus as SourceReading};
use kvroute_metrics::{Metrics, RankMetrics, SourceMetrics, SourceState, WorkerMetrics, WorkerState};
use tokio::sync::Notify;

use crate::config::WorkerConfig;
use crate::log_gate::LogGate;

/// A configured worker, whether it answers or not.
#[derive(Debug)]
pub(crate) struct Worker {
    id: WorkerId,
    config: WorkerConfig,
    state: AtomicU8,
    problem: ArcSwap<String>,
    metrics: WorkerMetrics,
    /// Woken when somebody saw that the worker does not answer.
    pub(crate) doubt: Notify,
}

/// One KV cache of a worker that has joined a pool.
#[derive(Debug)]
pub(crate) struct Rank {
    /// Dense number in the pool.
    pub(crate) slot: RankSlot,
    /// Worker and data-parallel rank.
    pub(crate) name: WorkerRank,
    /// The server.
    pub(crate) worker: Arc<Worker>,
    /// What kind of server it is.
    pub(crate) engine: EngineKind,
    /// Ranks of the server: with more than one, a request must name its rank.
    pub(crate) ranks_of_worker: u32,
    /// Its series; they leave with it.
    pub(crate) metrics: RankMetrics,
    /// Series of its KV event source; `None` where the engine publishes nothing.
    pub(crate) source_metrics: Option<SourceMetrics>,
    /// Lets a complaint about its events through once in a while.
    pub(crate) bad_events: LogGate,
    block_size: AtomicU32,
    source: ArcSwap<SourceStatus>,
}

/// How much the index can be trusted about one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceStatus {
    /// `None` where the engine publishes nothing.
    pub(crate) state: Option<SourceState>,
    /// Why it is not exact, and what would help.
    pub(crate) reason: String,
}

// === impl Worker ===

impl Worker {
    /// A worker that nobody has asked yet.
    pub(crate) fn new(config: WorkerConfig, metrics: &Metrics) -> Self {
        let id = config.id();
        Self {
            metrics: metrics.worker(&id, WorkerState::Starting),
            id,
            config,
            state: AtomicU8::new(WorkerState::Starting as u8),
            problem: ArcSwap::from_pointee("not asked yet".to_owned()),
            doubt: Notify::new(),
        }
    }

    /// Its name.
    pub(crate) const fn id(&self) -> &WorkerId {
        &self.id
    }

    /// As configured.
    pub(crate) const fn config(&self) -> &WorkerConfig {
        &self.config
    }

    /// Whether it takes requests.
    pub(crate) fn state(&self) -> WorkerState {
        let current = self.state.load(Ordering::Acquire);
        WorkerState::ALL.into_iter().find(|state| *state as u8 == current).unwrap_or(WorkerState::Unhealthy)
    }

    /// Whether requests may go there.
    pub(crate) fn takes_requests(&self) -> bool {
        self.state() == WorkerState::Ready
    }

    /// What is wrong with it; empty if nothing.
    pub(crate) fn problem(&self) -> Arc<String> {
        self.problem.load_full()
    }

    /// Sets state and problem; true if the state changed.
    pub(crate) fn enter(&self, state: WorkerState, problem: impl Into<String>) -> bool {
        self.problem.store(Arc::new(problem.into()));
        self.metrics.set_state(state);
        self.state.swap(state as u8, Ordering::AcqRel) != state as u8
    }

    /// A request found it unreachable: no further request goes there until it has answered again.
    pub(crate) fn found_unreachable(&self, cause: &str) {
        if self.enter(WorkerState::Unhealthy, cause) {
            tracing::warn!(worker = %self.id, cause, "worker is unreachable");
        }
        self.doubt.notify_one();
    }
}

// === impl Rank ===

impl Rank {
    /// A rank that has just joined.
    pub(crate) fn new(params: RankParams) -> Self {
        let RankParams { slot, name, worker, engine, ranks_of_worker, block_size, metrics, source_metrics } =
            params;
        let status = match source_metrics {
            Some(_) => {
                SourceStatus { state: Some(SourceState::Degraded), reason: "not connected yet".to_owned() }
            }
            None => SourceStatus { state: None, reason: engine.events_remedy().to_owned() },
        };
        Self {
            slot,
            name,
            worker,
            engine,
            ranks_of_worker,
            metrics,
            source_metrics,
            bad_events: LogGate::default(),
            block_size: AtomicU32::new(block_size.get()),
            source: ArcSwap::from_pointee(status),
        }
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

    /// How much the index can be trusted about it.
    pub(crate) fn source(&self) -> Arc<SourceStatus> {
        self.source.load_full()
    }

    /// Sets the trust; logs it once a change. Catching up is not one: it is over in a moment, or ends in another.
    pub(crate) fn set_source(&self, reading: SourceReading) {
        let state = reading.state;
        let reason = reading.reason.map(|reason| reason.to_string()).unwrap_or_default();
        let status = SourceStatus { state: Some(state), reason };
        if self.source.load().as_ref() == &status {
            return;
        }
        if let Some(metrics) = &self.source_metrics {
            metrics.set_state(state);
        }
        if reading.reason != Some(SourceReason::CatchingUp) {
            status.log(&self.name);
        }
        self.source.store(Arc::new(status));
    }

    /// Whether the index is told anything about it.
    pub(crate) fn has_source(&self) -> bool {
        self.source.load().state.is_some()
    }

    /// Whether its cached prefix may lower its cost.
    pub(crate) fn has_credit(&self) -> bool {
        matches!(
            self.source.load().state,
            Some(SourceState::Exact | SourceState::Degraded | SourceState::Remembered)
        )
    }
}

// === impl SourceStatus ===

impl SourceStatus {
    fn log(&self, rank: &WorkerRank) {
        let state = self.state.map(SourceState::as_str);
        match self.state {
            Some(SourceState::Exact) => tracing::info!(%rank, state, "KV event source changed"),
            _ => tracing::warn!(%rank, state, reason = self.reason, "KV event source changed"),
        }
    }
}

/// What a rank is made of.
#[derive(Debug)]
pub(crate) struct RankParams {
    pub(crate) slot: RankSlot,
    pub(crate) name: WorkerRank,
    pub(crate) worker: Arc<Worker>,
    pub(crate) engine: EngineKind,
    pub(crate) ranks_of_worker: u32,
    pub(crate) block_size: BlockSize,
    pub(crate) metrics: RankMetrics,
    pub(crate) source_metrics: Option<SourceMetrics>,
}
