//! From a request to the head of an answer to one leg of it, over another worker where the first one brings none.
//!
//! Only what no client can have seen is done again: a worker that could not be reached, whose connection broke before an
//! answer, or that answered that it cannot serve the request. Where a worker broke or failed at the request, it may have
//! been the request's doing, and the next worker may fail as well: that is tried on one other worker only. A request that
//! must go to one worker, or that nobody else may serve, is not sent again, and neither is one beyond the pool's budget:
//! asking twice must not double the load of a fleet that fails as a whole. Nor does a worker's time limit lead to another
//! one: its client has waited long enough. The retry does not stand in line once more: it had its turn.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{Phase, WorkerId};
use kvroute_metrics::{RequestOutcome, RequestRecorder, RetryReason, RetryRefusal};
use tokio::time::sleep;

use crate::admission::Unplaced;
use crate::dispatch::{Failed, Sent, dispatch};
use crate::error::RouteError;
use crate::placing::{Decision, Opened};
use crate::pool::Pool;
use crate::route::{Leg, Route};
use crate::trail::Trail;

/// Workers that one request may cost: the first one that broke under it, and one that shows whether it was the request.
const MOST_SUSPECT: usize = 2;

/// The longest pause before a request is sent to a third worker; twice as long before each further one. The second one is
/// asked at once: that the first one failed says nothing about it.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The workers that brought no answer to a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trials {
    tried: Vec<WorkerId>,
    attempts: u32,
    suspect: usize,
}

/// An attempt that brought no answer for the client, or one that tells of a failure and is only handed on if nobody else
/// can be asked.
enum Tried {
    Failed(Box<Failed>),
    Faulty(Box<Sent>, RetryReason),
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
        self.suspect += usize::from(matches!(retry, Some(RetryReason::Broken | RetryReason::Error)));
        retry
    }

    /// How long to wait before the next worker is asked, for a random number between 0 and 1.
    fn pause(&self, random: f64) -> Duration {
        match self.attempts {
            0 | 1 => Duration::ZERO,
            further => LONGEST_PAUSE.mul_f64(random) * (1 << (further - 2).min(6)),
        }
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

// === impl Tried ===

impl Tried {
    /// An answer for the client, or what became of the attempt instead.
    fn of(dispatched: Result<Sent, Failed>, leg: &Leg) -> Result<Sent, Self> {
        match dispatched {
            Err(failed) => Err(Self::Failed(Box::new(failed))),
            // What a worker answers that takes a prompt over is judged where that was handed over.
            Ok(sent) => match sent.answer.retry().filter(|_| leg.phase == Phase::Aggregated) {
                Some(reason) => Err(Self::Faulty(Box::new(sent), reason)),
                None => Ok(sent),
            },
        }
    }

    /// The worker, and why another one may be asked.
    fn failure(&self) -> (WorkerId, Option<RetryReason>) {
        match self {
            Self::Failed(failed) => {
                (failed.worker.clone(), failed.retry.filter(|_| failed.recorder.is_some()))
            }
            Self::Faulty(sent, reason) => (sent.attempt.rank().name.worker.clone(), Some(*reason)),
        }
    }

    /// Another worker is asked: gives the books of the request back.
    fn give_up(self) -> Option<RequestRecorder> {
        match self {
            Self::Failed(failed) => failed.recorder,
            Self::Faulty(sent, _) => sent.attempt.fail(),
        }
    }

    /// Nobody else is asked: what the worker answered is the answer, if it did.
    #[expect(
        clippy::result_large_err,
        reason = "made once for a request that failed, and handed on as it is"
    )]
    fn stands(self, refusal: Option<RetryRefusal>) -> Result<Sent, Unsent> {
        match self {
            Self::Faulty(sent, _) => Ok(*sent),
            Self::Failed(failed) => {
                let Failed { error, recorder, .. } = *failed;
                let error = match refusal.and_then(said_of) {
                    Some(reason) => error.not_retried(reason),
                    None => error,
                };
                Err(Unsent { why: Why::Failed(Box::new(error)), recorder })
            }
        }
    }
}

/// What the client is told beside the failure itself.
const fn said_of(refusal: RetryRefusal) -> Option<&'static str> {
    match refusal {
        RetryRefusal::Budget => Some("so many requests fail that pool.retries lets no more be sent again"),
        RetryRefusal::Limit => Some("it was sent again as often as pool.retries.limit lets it"),
        RetryRefusal::Suspect => Some("two workers failed under it, so that it may be the request itself"),
        RetryRefusal::NoWorker | RetryRefusal::Pinned => None,
    }
}

// === impl Pool ===

impl Pool {
    /// Finds a worker for a leg and sends it there, and to others as long as nobody answers. Those that did not are noted in
    /// `trials`.
    pub(crate) async fn send(
        self: &Arc<Self>,
        route: &Route,
        leg: &Leg,
        trials: &mut Trials,
        mut recorder: Option<RequestRecorder>,
    ) -> Result<Sent, Unsent> {
        let mut decision = match self.place(route, leg, trials).await {
            Ok(decision) => decision,
            Err(unplaced) => return Err(Unsent { why: Why::Unplaced(unplaced), recorder }),
        };
        loop {
            let opened = Opened::of(route, recorder, leg.lesson.clone());
            let attempt = self.open(decision, &route.asked(leg, trials.tried()), opened);
            let tried = match Tried::of(dispatch(attempt, route, leg).await, leg) {
                Ok(sent) => return Ok(sent),
                Err(tried) => tried,
            };
            let (worker, retry) = tried.failure();
            let Some(reason) = trials.failed(worker, retry) else { return tried.stands(None) };
            self.pause(trials).await;
            match self.place_again(route, leg, trials, reason) {
                Ok(next) => (decision, recorder) = (next, tried.give_up()),
                Err(refusal) => return tried.stands(refusal),
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
            self.resending().asked();
            return route.trail.waits(self.admit(&asked)).await;
        }
        let lane = self.lane(&asked)?;
        self.decide(&asked, Duration::ZERO).map_err(|_nobody| Unplaced::NoWorker(lane))
    }

    /// Another worker for a leg that these brought no answer to.
    ///
    /// # Errors
    /// Why there is none; `None` where the router stops.
    pub(crate) fn place_again(
        &self,
        route: &Route,
        leg: &Leg,
        trials: &Trials,
        reason: RetryReason,
    ) -> Result<Decision, Option<RetryRefusal>> {
        if self.streams().cut.is_cancelled() {
            return Err(None);
        }
        let placed = self.try_again(route, leg, trials);
        match &placed {
            Ok(_) => {
                self.resending().resent();
                self.metrics().retried(reason);
            }
            Err(refusal) => self.refused_retry(*refusal),
        }
        placed.map_err(Some)
    }

    fn try_again(&self, route: &Route, leg: &Leg, trials: &Trials) -> Result<Decision, RetryRefusal> {
        let asked = route.asked(leg, trials.tried());
        if asked.pin().is_some() {
            return Err(RetryRefusal::Pinned);
        }
        self.may_go_on(trials)?;
        if !self.resending().is_allowed(&self.config().retries) {
            return Err(RetryRefusal::Budget);
        }
        self.decide(&asked, Duration::ZERO).map_err(|_nobody| RetryRefusal::NoWorker)
    }

    /// Whether a request that these failed may be sent to one more.
    pub(crate) fn may_go_on(&self, trials: &Trials) -> Result<(), RetryRefusal> {
        if trials.suspect >= MOST_SUSPECT {
            return Err(RetryRefusal::Suspect);
        }
        let is_within = trials.attempts <= self.config().retries.limit;
        is_within.then_some(()).ok_or(RetryRefusal::Limit)
    }

    fn refused_retry(&self, refusal: RetryRefusal) {
        self.metrics().not_retried(refusal);
        let is_logged = refusal == RetryRefusal::Budget;
        let Some(unlogged) = is_logged.then(|| self.resending().spent.open()).flatten() else { return };
        tracing::warn!(
            model = %self.model(), unlogged,
            remedy = "look at what the workers say; pool.retries.share and pool.retries.floor are the limits",
            "so many requests fail that no more are sent to a second worker"
        );
    }

    /// Waits a little before one more worker of many is asked.
    async fn pause(&self, trials: &Trials) {
        let pause = trials.pause(rand::random());
        if !pause.is_zero() {
            let _cut = self.streams().cut.run_until_cancelled(sleep(pause)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_worker_is_asked_at_once_and_each_further_one_after_a_longer_pause() {
        let mut trials = Trials::default();
        let mut pauses = Vec::new();
        for number in 0..4 {
            pauses.push(trials.pause(1.0));
            trials.failed(WorkerId::new(format!("w{number}")), Some(RetryReason::Connect));
        }
        assert_eq!(pauses, [0, 0, 50, 100].map(Duration::from_millis));
        assert_eq!(trials.pause(0.0), Duration::ZERO);
    }
}
