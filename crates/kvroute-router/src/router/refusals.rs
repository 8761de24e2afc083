//! What a client is told that gets no worker: the thing, what is wrong with it, the remedy.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvroute_core::Phase;
use kvroute_metrics::{RequestOutcome, WorkerState};

use super::Shared;
use crate::admission::Unplaced;
use crate::error::{ErrorKind, RouteError};
use crate::hints::Pin;
use crate::lane::Lane;
use crate::pool::Pool;
use crate::retries::{Unsent, Why};
use crate::route::Route;
use crate::worker::Worker;

// === impl Shared ===

impl Shared {
    /// What the client is told that gets no answer, and the end of its books.
    pub(super) fn unanswered(&self, pool: &Pool, route: &Route, unsent: Unsent) -> RouteError {
        let outcome = match unsent.why {
            Why::Unplaced(_) => RequestOutcome::Rejected,
            Why::Failed(_) => RequestOutcome::Failed,
        };
        match unsent.end(outcome, &route.trail) {
            Why::Unplaced(unplaced) => self.unplaced(pool, unplaced),
            Why::Failed(error) => *error,
        }
    }

    /// Why a request was not placed.
    pub(crate) fn unplaced(&self, pool: &Pool, unplaced: Unplaced) -> RouteError {
        let model = pool.model().to_string();
        match unplaced {
            Unplaced::NoWorker(lane) => self.no_worker(pool, &lane),
            Unplaced::Hopeless(lane) => self.hopeless(pool, &lane),
            Unplaced::QueueFull { waiting, lane } => {
                let retry_after = pool.retry_after(&lane);
                RouteError::router(ErrorKind::QueueFull { model, waiting, retry_after })
            }
            Unplaced::QueueTimeout { waited, lane } => {
                let retry_after = pool.retry_after(&lane);
                RouteError::router(ErrorKind::QueueTimeout { model, waited, retry_after })
            }
            Unplaced::Unservable(lacks) => {
                let policy = pool.config().policy.clone();
                RouteError::client(ErrorKind::Unservable { policy, lacks })
            }
            Unplaced::Stopping => RouteError::router(ErrorKind::Stopping),
        }
    }

    /// No worker that may serve such a request takes any.
    pub(super) fn no_worker(&self, pool: &Pool, lane: &Lane) -> RouteError {
        let fleet = pool.fleet();
        let joined: BTreeMap<_, _> =
            fleet.suiting(lane).map(|rank| (rank.worker.id(), &rank.worker)).collect();
        let workers = match joined.is_empty() {
            true if fleet.is_divided() => self.nobody_takes(pool, lane),
            true => problems(pool.plan().crew.now().iter().filter(|worker| lane.may_suit(worker))),
            false => problems(joined.into_values()),
        };
        let away = lane.home.filter(|_| fleet.home_of(lane).is_some()).map(|home| home.away);
        let reason = away.map(|away| format!("{away} ({workers})")).unwrap_or(workers);
        RouteError::router(ErrorKind::NoWorker { model: pool.model().to_string(), reason })
    }

    /// No worker with this part has joined, in a pool of several parts.
    fn nobody_takes(&self, pool: &Pool, lane: &Lane) -> String {
        let crew = pool.plan().crew.now();
        let unwell: Vec<_> = crew.iter().filter(|worker| lane.may_suit(worker)).collect();
        if unwell.iter().any(|worker| worker.state() != WorkerState::Ready) {
            return problems(unwell);
        }
        match (lane.phase, lane.engine) {
            (Phase::Decode, Some(engine)) => {
                format!("none of its decode workers runs {engine}, whose KV only {engine} takes over")
            }
            (Phase::Prefill, _) => "it has no worker with role \"prefill\"".to_owned(),
            _ => "its workers only hand over and take over, and none serves a request whole; add one with role \
                  \"prefill\" or \"aggregated\""
                .to_owned(),
        }
    }

    /// No worker will ever do.
    fn hopeless(&self, pool: &Pool, lane: &Lane) -> RouteError {
        let fleet = pool.fleet();
        let adapter = lane.adapter.as_deref().unwrap_or_default();
        let workers = fleet.serving(adapter);
        let is_pinned_there = |pin: &Pin| fleet.ranks.iter().any(|rank| pin.names(&rank.name));
        let bound = match (&lane.pin, fleet.home_of(lane)) {
            (Some(pin), _) if !is_pinned_there(pin) => {
                return pool.unknown_worker(pin, &self.pools.load());
            }
            _ if workers.is_empty() => return self.unknown_model(adapter),
            (Some(pin), _) => format!("x-kvroute-worker names {:?}", pin.to_string()),
            (None, Some(home)) => {
                format!("sessions of this pool do not move, and this one belongs to worker {}", home.name)
            }
            (None, None) => return self.no_worker(pool, lane),
        };
        RouteError::client(ErrorKind::AdapterElsewhere { bound, adapter: adapter.to_owned(), workers })
    }
}

/// What is wrong with each of these workers.
pub(super) fn problems<'a>(workers: impl IntoIterator<Item = &'a Arc<Worker>>) -> String {
    let line = |worker: &Arc<Worker>| {
        let (state, problem) = (worker.state(), worker.problem());
        let remedy = if problem.is_empty() { "undrain it, or add another worker" } else { problem.as_str() };
        let is_well = state == WorkerState::Ready;
        (!is_well).then(|| format!("{} is {}: {remedy}", worker.id(), state.as_str()))
    };
    let mut workers = workers.into_iter().peekable();
    if workers.peek().is_none() {
        return "no worker is configured, added or discovered".to_owned();
    }
    let lines: Vec<_> = workers.filter_map(line).collect();
    match lines.is_empty() {
        true => "its workers have just become ready, send it again".to_owned(),
        false => lines.join("; "),
    }
}
