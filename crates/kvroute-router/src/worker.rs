//! One inference server, as the router sees it.
//!
//! A worker exists from the configuration on; its ranks exist once a probe has told what it serves. It is shared by
//! the decision, the relay and the admin plane, so what changes is atomic or behind a short lock.

mod condition;
mod pass;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kvroute_core::{Exclusion, WorkerId};
use kvroute_metrics::{Metrics, WorkerState};
use tokio::sync::Notify;

use self::condition::Condition;
pub(crate) use self::pass::Pass;
use crate::config::{BreakerConfig, WorkerConfig};
use crate::previous_responses::MadeResponses;

/// A configured worker, whether it answers or not.
#[derive(Debug)]
pub(crate) struct Worker {
    id: WorkerId,
    config: WorkerConfig,
    condition: Condition,
    is_member: AtomicBool,
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
            condition: Condition::new(metrics.worker(&id, WorkerState::Starting)),
            id,
            config,
            is_member: AtomicBool::new(false),
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

    /// What is shown of it: ready, or why it takes no requests.
    pub(crate) fn state(&self) -> WorkerState {
        self.condition.state()
    }

    /// What its probe found, whatever else keeps requests away.
    pub(crate) fn health(&self) -> WorkerState {
        self.condition.health()
    }

    /// Whether requests may go there: it is well, is not to be emptied, and did not fail too many.
    pub(crate) fn takes_requests(&self) -> bool {
        self.condition.exclusion().is_none() && self.condition.is_admitted()
    }

    /// Whether requests may go there where nobody else takes them: nothing but its own failures speaks against it.
    pub(crate) fn may_be_tried(&self) -> bool {
        self.condition.exclusion().is_none()
    }

    /// Why it gets no request, whatever it failed at before; `None` where nothing else speaks against it.
    pub(crate) fn exclusion(&self) -> Option<Exclusion> {
        self.condition.exclusion()
    }

    /// Whether its breaker lets one more request pass.
    pub(crate) fn is_admitted(&self) -> bool {
        self.condition.is_admitted()
    }

    /// How bad it is among those whose breakers are open: whether somebody tries it already, and the time until it may be
    /// tried.
    pub(crate) fn badness(&self) -> (bool, Duration) {
        self.condition.badness()
    }

    /// The right to send one attempt there, taken whether it should be or not.
    pub(crate) fn pass(self: &Arc<Self>) -> Pass {
        Pass::new(self)
    }

    /// Whether it finishes what it has and gets nothing more.
    pub(crate) fn is_draining(&self) -> bool {
        self.condition.is_draining()
    }

    /// It is to finish what it has and gets nothing more, or is used again.
    pub(crate) fn set_draining(&self, is_draining: bool) {
        self.condition.set_draining(is_draining);
    }

    /// From now on its breaker goes by this.
    pub(crate) fn configure_breaker(&self, config: BreakerConfig) {
        self.condition.configure_breaker(config);
    }

    /// It is another program than before: what its address failed at is forgotten.
    pub(crate) fn forgive(&self, config: BreakerConfig) {
        self.condition.forgive(config);
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
        !self.is_member() && self.health() != WorkerState::Starting
    }

    /// What is wrong with it; empty if nothing.
    pub(crate) fn problem(&self) -> Arc<String> {
        self.condition.problem()
    }

    /// What its probe said last; empty if it is well.
    pub(crate) fn health_problem(&self) -> Arc<String> {
        self.condition.health_problem()
    }

    /// Sets what its probe found: ready, starting or unhealthy, and the problem; true if it found something else before.
    pub(crate) fn enter(&self, health: WorkerState, problem: impl Into<String>) -> bool {
        self.condition.enter(health, problem.into())
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
