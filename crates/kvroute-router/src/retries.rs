//! From a request to the head of an answer to one leg of it, over another worker where the first one brings none.
//!
//! Only what no client can have seen is done again: a worker that could not be reached, or whose connection broke before
//! any answer. In the second case the worker may have died of the request, and the next one may as well, so that is
//! tried on one other worker only. A request that must go to one worker, or that nobody else may serve, is not sent
//! again. The retry does not stand in line once more: it had its turn.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::WorkerId;
use kvroute_metrics::{RequestOutcome, RequestRecorder, RetryReason};

use crate::admission::Unplaced;
use crate::dispatch::{Failed, Sent, dispatch};
use crate::error::RouteError;
use crate::placing::{Decision, Opened};
use crate::pool::Pool;
use crate::route::{Leg, Route};
use crate::trail::Trail;

/// Workers that one request is sent to at most: if so many cannot be reached, the fleet is down and not a worker.
const MOST_ATTEMPTS: usize = 3;

/// Workers that one request may cost: the first one that broke under it, and one that shows whether it was the request.
const MOST_BROKEN: usize = 2;

/// The workers that brought no answer to a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trials {
    tried: Vec<WorkerId>,
    attempts: usize,
    broken: usize,
}

/// A leg that got no answer, and what is still open of its request.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) why: Why,
    /// `None` where the request's books are closed, or belong to another leg.
    pub(crate) recorder: Option<RequestRecorder>,
}

/// Why a leg got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Why {
    /// No worker was found for it.
    #[error("no worker takes it")]
    Unplaced(Unplaced),
    /// The workers that it was sent to brought none: what the last one said.
    #[error("{0}")]
    Failed(Box<RouteError>),
}

// === impl Trials ===

impl Trials {
    /// A request that is not to go to these workers, for reasons of another attempt.
    pub(crate) fn without(tried: Vec<WorkerId>) -> Self {
        Self { tried, ..Self::default() }
    }

    /// Those that it is not to go to any more.
    pub(crate) fn tried(&self) -> &[WorkerId] {
        &self.tried
    }

    /// Takes note of a worker that brought no answer. Returns why another one may be tried; `None` where none may.
    pub(crate) fn failed(&mut self, worker: WorkerId, retry: Option<RetryReason>) -> Option<RetryReason> {
        self.tried.push(worker);
        self.attempts += 1;
        self.broken += usize::from(retry == Some(RetryReason::Broken));
        retry.filter(|_| self.attempts < MOST_ATTEMPTS && self.broken < MOST_BROKEN)
    }
}

// === impl Unsent ===

impl Unsent {
    /// Closes the books of the request that ends with it.
    pub(crate) fn end(self, outcome: RequestOutcome, trail: &Trail) -> Why {
        if let Some(recorder) = self.recorder {
            recorder.finish(outcome);
            trail.ended(outcome);
        }
        self.why
    }
}

// === impl Pool ===

impl Pool {
    /// Finds a worker for a leg and sends it there, and to others as long as nobody answers.
    pub(crate) async fn send(
        self: &Arc<Self>,
        route: &Route,
        leg: &Leg,
        mut trials: Trials,
        recorder: Option<RequestRecorder>,
    ) -> Result<Sent, Unsent> {
        let mut decision = match self.place(route, leg, &trials).await {
            Ok(decision) => decision,
            Err(unplaced) => return Err(Unsent { why: Why::Unplaced(unplaced), recorder }),
        };
        let mut recorder = recorder;
        loop {
            let opened = Opened::of(route, recorder, leg.lesson.clone());
            let attempt = self.open(decision, &route.asked(leg, trials.tried()), opened);
            let failed = match dispatch(attempt, route, leg).await {
                Ok(sent) => return Ok(sent),
                Err(failed) => failed,
            };
            let Failed { error, worker, retry, recorder: returned } = failed;
            let retry = trials.failed(worker, retry);
            match retry.and_then(|reason| self.place_again(route, leg, &trials, reason)) {
                Some(next) if returned.is_some() => (decision, recorder) = (next, returned),
                _ => return Err(Unsent { why: Why::Failed(Box::new(error)), recorder: returned }),
            }
        }
    }

    /// Finds a worker for a leg. A request that goes on with what another worker began had its turn and does not stand in
    /// line again.
    pub(crate) async fn place(
        &self,
        route: &Route,
        leg: &Leg,
        trials: &Trials,
    ) -> Result<Decision, Unplaced> {
        let asked = route.asked(leg, trials.tried());
        if trials.tried().is_empty() {
            return route.trail.waits(self.admit(&asked)).await;
        }
        let lane = self.lane(&asked)?;
        self.decide(&asked, Duration::ZERO).map_err(|_nobody| Unplaced::NoWorker(lane))
    }

    /// Another worker for a leg that these brought no answer to; `None` where there is none.
    pub(crate) fn place_again(
        &self,
        route: &Route,
        leg: &Leg,
        trials: &Trials,
        reason: RetryReason,
    ) -> Option<Decision> {
        let asked = route.asked(leg, trials.tried());
        if asked.pin().is_some() || self.streams().cut.is_cancelled() {
            return None;
        }
        let decision = self.decide(&asked, Duration::ZERO).ok()?;
        self.metrics().retried(reason);
        Some(decision)
    }
}
