//! Watches one worker: asks it what it is, lets it join its pool, notices when it goes and when it comes back.
//!
//! Nothing about a worker is believed for ever. It joins with what its probe said; when it was away and comes
//! back as something else (another model, other ranks), it leaves and joins anew.

use std::sync::Arc;
use std::time::Duration;

use kvroute_engine::{Probe, ProbeError, check_health, probe};
use kvroute_metrics::WorkerState;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::membership::Membership;
use crate::plan::PoolPlan;
use crate::router::Shared;
use crate::upstream::{self, UpstreamClient};
use crate::worker::Worker;

/// How often a worker that is well is asked whether it still is.
const HEALTH_INTERVAL: Duration = Duration::from_secs(2);

/// How often a worker is asked again what it is: a new process on the old address may be just as well.
const REPROBE_INTERVAL: Duration = Duration::from_secs(30);

/// Failed health checks in a row after which a worker gets no requests; a refused request needs no second one.
const TOLERATED_FAILURES: u32 = 1;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Watches one worker until told to stop.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    plan: Arc<PoolPlan>,
    worker: Arc<Worker>,
    client: UpstreamClient,
    stop: CancellationToken,
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
        let client = upstream::client(plan.config.timeouts.connect);
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
                    Ok(joined) => *membership = Some(joined),
                    Err(problem) => {
                        self.enter(WorkerState::Starting, &problem);
                        sleep(LONGEST_PAUSE).await;
                        continue;
                    }
                }
            }
            let was_away = self.worker.state() == WorkerState::Unhealthy;
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

    /// Asks what the worker is until it says so.
    async fn until_probed(&self) -> Probe {
        let mut pause = FIRST_PAUSE;
        loop {
            match probe(&self.client, &self.worker.config().url).await {
                Ok(found) => return found,
                Err(error) => self.enter(self.state_without_answer(&error), &error.to_string()),
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A worker that was ready once is unhealthy now; one that never was is still starting.
    fn state_without_answer(&self, error: &ProbeError) -> WorkerState {
        match (self.worker.state(), error) {
            (WorkerState::Starting, _) | (_, ProbeError::Loading { .. }) => WorkerState::Starting,
            _ => WorkerState::Unhealthy,
        }
    }

    /// Returns when the worker must be asked again what it is: it is unwell, or it is not what it was.
    async fn until_changed(&self, joined: &Membership) {
        let mut failures = 0;
        let mut asked = Instant::now();
        loop {
            let is_doubted = tokio::select! {
                () = sleep(HEALTH_INTERVAL) => false,
                () = self.worker.doubt.notified() => true,
            };
            if is_doubted || asked.elapsed() >= REPROBE_INTERVAL {
                asked = Instant::now();
                let found = probe(&self.client, &self.worker.config().url).await;
                let is_same = found.is_ok_and(|found| joined.changed(&found).is_none());
                if !is_same || !self.worker.takes_requests() {
                    return;
                }
                continue;
            }
            match check_health(&self.client, &self.worker.config().url).await {
                Ok(()) => failures = 0,
                Err(_) if failures < TOLERATED_FAILURES => failures += 1,
                Err(error) => return self.enter(WorkerState::Unhealthy, &error.to_string()),
            }
        }
    }

    fn enter(&self, state: WorkerState, problem: &str) {
        let was = self.worker.problem();
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
