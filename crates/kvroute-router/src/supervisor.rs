//! Watches one worker: asks it what it is, lets it join its pool, notices when it goes and when it comes back.
//!
//! Nothing about a worker is believed for ever. It joins with what its probe said; when it was away and comes
//! back as something else (another model, other ranks), it leaves and joins anew. What it failed at before is then forgotten;
//! a worker that was only away may be tried at once, whatever it failed at.

use std::sync::Arc;
use std::time::Duration;

use kvroute_engine::{HttpClient, Probe, ProbeError, check_health, probe};
use kvroute_metrics::WorkerState;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::config::HealthConfig;
use crate::health::Questions;
use crate::membership::Membership;
use crate::plan::PoolPlan;
use crate::router::Shared;
use crate::upstream;
use crate::worker::Worker;

/// How often a worker is asked again what it is: a new process on the old address may be just as well.
const REPROBE_INTERVAL: Duration = Duration::from_secs(30);

/// How soon a worker is asked again that did not answer as it should, unless it is asked more often anyway.
const AFTER_FAILURE: Duration = Duration::from_millis(500);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Watches one worker until told to stop.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    plan: Arc<PoolPlan>,
    worker: Arc<Worker>,
    client: HttpClient,
    stop: CancellationToken,
}

/// Why a worker does not tell how it is.
struct Problem {
    text: String,
    /// It could not be asked, for want of something of the router's own.
    is_own: bool,
}

// === impl Supervisor ===

impl Supervisor {
    /// A supervisor of a worker that nobody has asked yet.
    pub(crate) fn new(
        shared: Arc<Shared>,
        plan: Arc<PoolPlan>,
        worker: Arc<Worker>,
        stop: CancellationToken,
    ) -> Self {
        let client = upstream::client(plan.config().timeouts.connect, &plan.config().tls);
        Self { shared, plan, worker, client, stop }
    }

    /// Runs until told to stop.
    pub(crate) async fn run(self) {
        let mut membership = None;
        let stop = self.stop.clone();
        let _stopped = stop.run_until_cancelled(self.watch(&mut membership)).await;
        if let Some(membership) = membership {
            membership.leave().await;
        }
    }

    async fn watch(&self, membership: &mut Option<Membership>) {
        loop {
            let found = self.until_probed().await;
            let changed = membership.as_ref().and_then(|joined| joined.changed(&found));
            if let (Some(changed), Some(left)) = (&changed, membership.take_if(|_| changed.is_some())) {
                tracing::warn!(worker = %self.worker.id(), changed, "worker restarted as another one, joins anew");
                left.leave().await;
            }
            if membership.is_none() {
                match Membership::join(&self.shared, &self.plan, &self.worker, &found).await {
                    Ok(joined) => {
                        self.worker.forgive(self.plan.config().breaker);
                        *membership = Some(joined);
                    }
                    Err(problem) => {
                        self.enter(WorkerState::Starting, &problem);
                        sleep(LONGEST_PAUSE).await;
                        continue;
                    }
                }
            }
            let was_away = self.worker.health() == WorkerState::Unhealthy;
            self.enter(WorkerState::Ready, "");
            if let Some(joined) = membership {
                if was_away {
                    joined.came_back();
                }
                joined.is_ready();
                self.until_changed(joined).await;
            }
        }
    }

    /// Asks what the worker is until it says so, as often as one must that did not answer before.
    async fn until_probed(&self) -> Probe {
        let (mut pause, mut questions) = (FIRST_PAUSE, Questions::default());
        loop {
            match probe(&self.client, &self.worker.config().url).await {
                Ok(found) => {
                    let is_enough = questions.answered(&self.plan.config().health);
                    if is_enough || self.worker.health() != WorkerState::Unhealthy {
                        return found;
                    }
                    pause = FIRST_PAUSE;
                }
                Err(error) => {
                    questions = Questions::default();
                    self.enter(self.state_without_answer(&error), &error.to_string());
                }
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A worker that was ready once is unhealthy now; one that never was is still starting.
    fn state_without_answer(&self, error: &ProbeError) -> WorkerState {
        match (self.worker.health(), error) {
            (state, error) if error.is_shortage() => state,
            (WorkerState::Starting, _) | (_, ProbeError::Loading { .. }) => WorkerState::Starting,
            _ => WorkerState::Unhealthy,
        }
    }

    /// Returns when the worker must be asked again what it is: it is unwell, or it is not what it was.
    async fn until_changed(&self, joined: &Membership) {
        let (mut questions, mut pause) = (Questions::default(), self.health().interval);
        let mut asked = Instant::now();
        loop {
            let is_doubted = tokio::select! {
                () = sleep(pause) => false,
                () = self.worker.doubt.notified() => true,
            };
            if self.worker.health() != WorkerState::Ready {
                return; // A request found that nobody listens there.
            }
            let config = self.health();
            self.worker.configure_breaker(self.plan.config().breaker);
            let is_asked_all = is_doubted || asked.elapsed() >= REPROBE_INTERVAL;
            let answer = match is_asked_all {
                true => {
                    asked = Instant::now();
                    match self.is_well(&config).await {
                        Ok(()) => self.is_still(joined).await,
                        Err(problem) => Err(problem),
                    }
                }
                false => self.is_well(&config).await.map(|()| true),
            };
            pause = config.interval;
            match answer {
                Ok(true) => {
                    let _is_back = questions.answered(&config);
                }
                Ok(false) => return,
                Err(Problem { text, is_own: true }) => {
                    tracing::warn!(worker = %self.worker.id(), problem = text, "a worker's health is not known");
                    pause = pause.min(AFTER_FAILURE);
                }
                Err(Problem { text, .. }) if questions.failed(&config) => {
                    return self.enter(WorkerState::Unhealthy, &text);
                }
                Err(Problem { text: problem, .. }) => {
                    tracing::debug!(worker = %self.worker.id(), problem, "worker did not answer as it should");
                    pause = pause.min(AFTER_FAILURE);
                }
            }
        }
    }

    /// Whether the worker is what it was; the error says why it does not tell.
    async fn is_still(&self, joined: &Membership) -> Result<bool, Problem> {
        let found = probe(&self.client, &self.worker.config().url).await;
        found
            .map(|found| joined.changed(&found).is_none())
            .map_err(|error| Problem { is_own: error.is_shortage(), text: error.to_string() })
    }

    async fn is_well(&self, config: &HealthConfig) -> Result<(), Problem> {
        match timeout(config.timeout, check_health(&self.client, &self.worker.config().url)).await {
            Ok(answer) => {
                answer.map_err(|error| Problem { is_own: error.is_shortage(), text: error.to_string() })
            }
            Err(_elapsed) => {
                let limit = config.timeout;
                let text = format!("does not answer /health within pool.health.timeout of {limit:?}");
                Err(Problem { text, is_own: false })
            }
        }
    }

    /// How the worker is asked whether it is well, at this moment.
    fn health(&self) -> HealthConfig {
        self.plan.config().health
    }

    fn enter(&self, state: WorkerState, problem: &str) {
        let was = self.worker.health_problem();
        if !self.worker.enter(state, problem) && *was == problem {
            return;
        }
        let (worker, state) = (self.worker.id(), state.as_str());
        if problem.is_empty() {
            tracing::info!(%worker, state, "worker changed");
        } else {
            tracing::warn!(%worker, state, problem, "worker changed");
        }
    }
}
