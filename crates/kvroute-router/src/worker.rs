//! One inference server, as the router sees it.
//!
//! A worker exists from the configuration on; its ranks exist once a probe has told what it serves. It is shared by
//! the decision, the relay and the admin plane, so what changes is atomic or behind a short lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use arc_swap::ArcSwap;
use kvroute_core::WorkerId;
use kvroute_metrics::{Metrics, WorkerMetrics, WorkerState};
use tokio::sync::Notify;

use crate::config::WorkerConfig;
use crate::previous_responses::MadeResponses;

/// A configured worker, whether it answers or not.
#[derive(Debug)]
pub(crate) struct Worker {
    id: WorkerId,
    config: WorkerConfig,
    state: AtomicU8,
    is_member: AtomicBool,
    problem: ArcSwap<String>,
    metrics: WorkerMetrics,
    responses: MadeResponses,
    /// Whether it refused to be asked for usage in a stream.
    refuses_stream_options: AtomicBool,
    /// Whether it refused to be asked for token ids.
    refuses_token_ids: AtomicBool,
    /// Woken when somebody saw that the worker does not answer.
    pub(crate) doubt: Notify,
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
            is_member: AtomicBool::new(false),
            problem: ArcSwap::from_pointee("not asked yet".to_owned()),
            responses: MadeResponses::default(),
            refuses_stream_options: AtomicBool::new(false),
            refuses_token_ids: AtomicBool::new(false),
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
        self.state.load(Ordering::Acquire) == WorkerState::Ready as u8
    }

    /// Whether it belongs to a pool now, so that it is known what it serves.
    pub(crate) fn is_member(&self) -> bool {
        self.is_member.load(Ordering::Acquire)
    }

    /// It has joined a pool, or is about to leave it. What joins may be another program than what left.
    pub(crate) fn set_member(&self, is_member: bool) {
        self.refuses_stream_options.store(false, Ordering::Relaxed);
        self.refuses_token_ids.store(false, Ordering::Relaxed);
        self.is_member.store(is_member, Ordering::Release);
    }

    /// Whether it has left its pool and is about to join one anew, which takes it a moment.
    pub(crate) fn joins_anew(&self) -> bool {
        !self.is_member() && self.state() != WorkerState::Starting
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

    /// The responses that it made.
    pub(crate) const fn responses(&self) -> &MadeResponses {
        &self.responses
    }

    /// Whether a stream may be asked for usage: as long as it has not refused.
    pub(crate) fn takes_stream_options(&self) -> bool {
        !self.refuses_stream_options.load(Ordering::Relaxed)
    }

    /// It took a stream only without the question for usage. It is not asked again, which is said once.
    pub(crate) fn refuses_stream_options(&self) {
        if self.refuses_stream_options.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            worker = %self.id,
            remedy = "upgrade the engine to a release that takes stream_options.include_usage",
            lost = "reports of reused tokens for streams whose client does not ask for usage itself",
            "worker refuses stream_options.include_usage: it is not sent any more"
        );
    }

    /// Whether it may be asked for token ids: as long as it has not refused.
    pub(crate) fn takes_token_ids(&self) -> bool {
        !self.refuses_token_ids.load(Ordering::Relaxed)
    }

    /// It took a request only without the question for token ids. It is not asked again, which is said once.
    pub(crate) fn refuses_token_ids(&self) {
        if self.refuses_token_ids.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            worker = %self.id,
            remedy = "upgrade the engine to a release that takes return_token_ids, or set pool.history.outputs to \"off\"",
            lost = "what the history would have learned of generated text",
            "worker refuses return_token_ids: it is not sent any more"
        );
    }

    /// A request found it unreachable: no further request goes there until it has answered again.
    pub(crate) fn found_unreachable(&self, cause: &str) {
        if self.enter(WorkerState::Unhealthy, cause) {
            tracing::warn!(worker = %self.id, cause, "worker is unreachable");
        }
        self.doubt.notify_one();
    }
}
