//! From the name that a request asks for to the pool that serves it.
//!
//! What a pool serves is known from its workers. As long as none of them has said so, a name that nobody knows may still
//! be theirs: the request waits for the first of them, and is not told that there is no such model.

use std::sync::Arc;
use std::time::Duration;

use kvroute_metrics::{Endpoint as RouteLabel, RequestCounters, RequestOutcome};
use kvroute_openai::ClientRequest;

use super::refusals::problems;
use super::{Shared, route_label};
use crate::error::{ErrorKind, RouteError};
use crate::plan::PoolPlan;
use crate::pool::Pool;
use crate::worker::Worker;

/// A request that waits until it is known whose it is. Dropped before, its client has left.
struct Unassigned<'a> {
    requests: &'a RequestCounters,
    endpoint: RouteLabel,
    is_waiting: bool,
}

// === impl Shared ===

impl Shared {
    /// The pool of a request, which is counted here if it gets none.
    pub(super) async fn pool_of(&self, request: &ClientRequest) -> Result<Arc<Pool>, RouteError> {
        let mut found = self.find_pool(request.model.as_deref());
        if is_too_early(&found) {
            found = self.await_pool(request).await;
        }
        found.inspect_err(|_| {
            self.metrics.unknown_model().count(route_label(request.endpoint), RequestOutcome::Rejected);
        })
    }

    /// The pool of that name, or the only one; the error says whether it may come yet.
    pub(crate) fn find_pool(&self, model: Option<&str>) -> Result<Arc<Pool>, RouteError> {
        let pools = self.pools.load();
        let found = match (model, pools.as_slice()) {
            (Some(name), _) => pools.iter().find(|pool| pool.serves(name)),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        if let Some(pool) = found {
            return Ok(Arc::clone(pool));
        }
        let Some(model) = model.filter(|_| !pools.is_empty()) else {
            return Err(match pools.is_empty() {
                true => not_ready(self.roster.all().iter()),
                false => RouteError::client(ErrorKind::ModelMissing { served: served(&pools) }),
            });
        };
        let mut silent = self.silent_plans(&pools).peekable();
        match silent.peek() {
            None => Err(self.unknown_model(model)),
            Some(_) => Err(not_ready(&silent.flat_map(|plan| plan.crew.now().to_vec()).collect::<Vec<_>>())),
        }
    }

    /// The plans of which it is not known what they serve: no worker belongs to a pool, or one is between two of them.
    fn silent_plans<'a>(&'a self, pools: &'a [Arc<Pool>]) -> impl Iterator<Item = &'a Arc<PoolPlan>> {
        let has_members = move |plan| {
            let mut of_plan = pools.iter().filter(|pool| pool.is_of(plan));
            of_plan.any(|pool| !pool.fleet().ranks.is_empty())
        };
        let is_between = |plan: &Arc<PoolPlan>| plan.crew.now().iter().any(|worker| worker.joins_anew());
        self.plans.iter().filter(move |plan| !has_members(plan) || is_between(plan))
    }

    /// More is known now of what is served.
    pub(crate) fn worker_joined(&self) {
        self.first_worker.came();
        self.tell_series_of_all();
    }

    pub(super) fn unknown_model(&self, model: &str) -> RouteError {
        let served = served(&self.pools.load());
        RouteError::client(ErrorKind::UnknownModel { model: model.to_owned(), served })
    }

    async fn await_pool(&self, request: &ClientRequest) -> Result<Arc<Pool>, RouteError> {
        let mut unassigned = Unassigned {
            requests: self.metrics.unknown_model(),
            endpoint: route_label(request.endpoint),
            is_waiting: true,
        };
        let (mut limit, mut patience) = (0, Duration::ZERO);
        for plan in self.silent_plans(&self.pools.load()) {
            let queue = plan.config().queue;
            limit = limit.max(queue.limit);
            patience = patience.max(queue.timeout);
        }
        let is_known = || !is_too_early(&self.find_pool(request.model.as_deref()));
        self.first_worker.wait(limit, patience, is_known).await;
        unassigned.is_waiting = false;
        if self.closing.is_cancelled() {
            return Err(RouteError::router(ErrorKind::Stopping));
        }
        self.find_pool(request.model.as_deref())
    }
}

fn is_too_early(found: &Result<Arc<Pool>, RouteError>) -> bool {
    found.as_ref().is_err_and(|error| matches!(error.kind(), ErrorKind::NotReady { .. }))
}

fn not_ready<'a>(workers: impl IntoIterator<Item = &'a Arc<Worker>>) -> RouteError {
    RouteError::router(ErrorKind::NotReady { workers: problems(workers) })
}

fn served(pools: &[Arc<Pool>]) -> String {
    pools.iter().map(|pool| pool.model().as_str()).collect::<Vec<_>>().join(", ")
}

// === impl Unassigned ===

impl Drop for Unassigned<'_> {
    fn drop(&mut self) {
        if self.is_waiting {
            self.requests.count(self.endpoint, RequestOutcome::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests;
