//! Workers that come and go while the router runs.
//!
//! Whoever asks only says who is wanted; what follows is done by tasks. A worker that leaves is looked at until nothing of
//! this router runs there: which attempts run stands in the load book, under the lock that decisions are taken under, and
//! the worker was taken out of their sight before. So no attempt can be placed there once it was seen idle.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{ModelName, WorkerId, WorkerRole};
use tokio::time::sleep;

use super::{Router, Shared};
use crate::config::{WorkerConfig, twins};
use crate::plan::PoolPlan;
use crate::pool::Pool;
use crate::roster::{Post, RosterError, Step, WorkerSource};
use crate::status::WorkerStatus;
use crate::supervisor::Supervisor;
use crate::worker::Worker;

/// How often it is seen whether a worker that leaves has finished. Only while one leaves.
const LOOKED_EVERY: Duration = Duration::from_millis(50);

// === impl Router ===

impl Router {
    /// Lets one more worker join the pool of a model; without a model, the only pool. It takes requests once it has answered
    /// its probe. The error says why it cannot.
    pub fn add_worker(&self, model: Option<&str>, worker: WorkerConfig) -> Result<WorkerId, RosterError> {
        let shared = &self.shared;
        if shared.stopping.is_cancelled() {
            return Err(RosterError::Stopping);
        }
        let (plan, id) = (shared.plan_of(model)?, worker.id());
        if !plan.may_have(worker.role) {
            return Err(RosterError::NoHandover { worker: id });
        }
        shared.roster.add(&plan, worker)?;
        tracing::info!(worker = %id, "worker added");
        shared.settle();
        Ok(id)
    }

    /// Lets a worker leave: it takes no new requests from now on, finishes those that it has, and is then forgotten with all
    /// that was kept for it. It stays away as long as the configuration or the discovery go on naming it.
    pub fn remove_worker(&self, id: &WorkerId) -> Result<(), RosterError> {
        self.shared.roster.remove(id)?;
        tracing::info!(worker = %id, "worker is to leave");
        self.shared.settle();
        Ok(())
    }

    /// From now on a worker takes no new requests, whatever becomes of it, until [`Router::undrain_worker`].
    pub fn drain_worker(&self, id: &WorkerId) -> Result<(), RosterError> {
        self.shared.roster.drain(id, true)?;
        tracing::info!(worker = %id, "worker drains");
        Ok(())
    }

    /// The worker takes requests again, as far as it is well.
    pub fn undrain_worker(&self, id: &WorkerId) -> Result<(), RosterError> {
        let post = self.shared.roster.drain(id, false)?;
        tracing::info!(worker = %id, "worker takes requests again");
        self.shared.wake(&post.worker);
        Ok(())
    }

    /// One worker, as `GET /api/workers` lists it; `None` where there is none of that name.
    pub fn worker(&self, id: &WorkerId) -> Option<WorkerStatus> {
        let workers = self.shared.roster.all();
        let worker = workers.iter().find(|worker| worker.id() == id)?;
        Some(WorkerStatus::of(worker, &self.shared.roster, &self.shared.pools.load()))
    }
}

// === impl Shared ===

impl Shared {
    /// Makes of who is there who is wanted.
    pub(super) fn settle(self: &Arc<Self>) {
        for step in self.roster.settle(|config| Worker::new(config.clone(), &self.metrics)) {
            match step {
                Step::Start(post) => self.employ(post),
                Step::Leave(post) => {
                    self.streams.tasks.spawn(depart(Arc::clone(self), post));
                }
                Step::Stays(post) => self.wake(&post.worker),
            }
        }
    }

    fn employ(self: &Arc<Self>, post: Post) {
        self.warn_of_twins(&post.worker);
        let Post { worker, plan, stop, done, .. } = post;
        let (shared, ending) = (Arc::clone(self), self.ending.clone());
        self.streams.tasks.spawn(async move {
            let _done = done.drop_guard();
            let ends = stop.child_token();
            let supervisor = Supervisor::new(shared, plan, worker, ends.clone());
            let mut watched = std::pin::pin!(supervisor.run());
            tokio::select! {
                () = &mut watched => return,
                () = ending.cancelled() => ends.cancel(),
            }
            watched.await;
        });
    }

    /// Of those that are configured whoever reads the configuration is told.
    fn warn_of_twins(&self, joining: &Arc<Worker>) {
        if self.roster.source(joining) == Some(WorkerSource::Configured) {
            return;
        }
        let all = self.roster.all();
        let joining = joining.config();
        let others = all.iter().map(|worker| worker.config()).filter(|other| other.url != joining.url);
        for twins in twins(others.chain([joining])).iter().filter(|twins| twins.second == joining.id()) {
            tracing::warn!(worker = %twins.second, twin = %twins.first, "{twins}");
        }
    }

    /// Those who wait may have been waiting for this worker.
    fn wake(&self, worker: &Arc<Worker>) {
        if let Some(pool) = self.pools.load().iter().find(|pool| pool.has(worker)) {
            pool.gate().wake();
        }
    }

    /// Whether nothing of this router runs on a worker.
    fn is_idle(&self, worker: &Arc<Worker>) -> bool {
        self.pools.load().iter().all(|pool| pool.running_on(worker) == 0)
    }

    /// The plan whose pool serves a model, or will; without a model, the only one.
    fn plan_of(&self, model: Option<&str>) -> Result<Arc<PoolPlan>, RosterError> {
        let Some(model) = model else {
            return match self.plans.as_slice() {
                [only] => Ok(Arc::clone(only)),
                _ => Err(RosterError::ModelMissing { served: self.served_names() }),
            };
        };
        let pools = self.pools.load();
        let serves = |pool: &&Arc<Pool>| pool.serves(model);
        let of_pool = pools
            .iter()
            .find(serves)
            .and_then(|pool| self.plans.iter().find(|plan| pool.is_of(plan)).cloned());
        of_pool
            .ok_or_else(|| RosterError::UnknownModel { model: model.to_owned(), served: self.served_names() })
    }

    fn served_names(&self) -> String {
        let pools = self.pools.load();
        let names: Vec<_> = pools.iter().map(|pool| pool.model()).map(ModelName::as_str).collect();
        if names.is_empty() { "(none yet)".to_owned() } else { names.join(", ") }
    }
}

/// Lets a worker leave once nothing runs there, unless it is called back before.
async fn depart(shared: Arc<Shared>, post: Post) {
    let ending = shared.ending.clone();
    let has_left = ending.run_until_cancelled(leave(&shared, &post)).await;
    if has_left == Some(true) {
        tracing::info!(worker = %post.worker.id(), "worker has left");
        drop(post); // Its series go with it, before another one of its name comes.
        shared.settle();
    }
}

async fn leave(shared: &Arc<Shared>, post: &Post) -> bool {
    while !shared.is_idle(&post.worker) {
        sleep(LOOKED_EVERY).await;
        if !shared.roster.is_leaving(&post.worker) {
            return false;
        }
    }
    if !shared.roster.end(&post.worker) {
        return false;
    }
    post.stop.cancel();
    post.done.cancelled().await;
    shared.roster.gone(&post.worker);
    true
}

// === impl PoolPlan ===

impl PoolPlan {
    /// Whether a worker with this role can join while the router runs: whether a pool hands prompts over is known from its
    /// start, since its series and its books follow from it.
    pub(crate) const fn may_have(&self, role: WorkerRole) -> bool {
        self.hands_over || !matches!(role, WorkerRole::Prefill)
    }
}

#[cfg(test)]
mod tests;
