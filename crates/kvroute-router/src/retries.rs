//! From a decision to an answer, over another worker where the first one brings none.
//!
//! Only what no client can have seen is done again: a worker that could not be reached, or whose connection broke before
//! any answer. In the second case the worker may have died of the request, and the next one may as well, so that is
//! tried on one other worker only. A request that must go to one worker, or that nobody else may serve, is not sent
//! again. The retry does not stand in line once more: it had its turn.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use kvroute_core::WorkerId;
use kvroute_metrics::{RequestOutcome, RetryReason};

use crate::dispatch::{Call, Failed, dispatch};
use crate::error::RouteError;
use crate::placing::{Asked, Decision, Opened};
use crate::pool::Pool;
use crate::relay::RelayBody;

/// Workers that one request is sent to at most: if so many cannot be reached, the fleet is down and not a worker.
const MOST_ATTEMPTS: usize = 3;

/// Workers that one request may cost: the first one that broke under it, and one that shows whether it was the request.
const MOST_BROKEN: usize = 2;

// === impl Pool ===

impl Pool {
    /// Sends a placed request to its worker, and to others as long as nobody answers.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        mut decision: Decision,
        asked: &Asked<'_>,
        mut opened: Opened<'_>,
        mut call: Call,
    ) -> Result<Response<RelayBody>, RouteError> {
        let (request_id, received, trail) = (opened.request_id, opened.received, opened.trail.clone());
        let (mut tried, mut broken) = (Vec::new(), 0);
        loop {
            let attempt = self.open(decision, &Asked { tried: &tried, ..*asked }, opened);
            attempt.propagate(&mut call.headers);
            let failed = match dispatch(attempt, &call).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            let Failed { error, worker, retry, recorder } = failed;
            tried.push(worker);
            broken += usize::from(retry == Some(RetryReason::Broken));
            let retry = retry.filter(|_| tried.len() < MOST_ATTEMPTS && broken < MOST_BROKEN);
            let Some(recorder) = recorder else { return Err(error) };
            let Some(next) = retry.and_then(|reason| self.place_again(asked, &tried, reason)) else {
                recorder.finish(RequestOutcome::Failed);
                trail.ended(RequestOutcome::Failed);
                return Err(error);
            };
            decision = next;
            opened = Opened { request_id, recorder, received, trail: trail.clone() };
        }
    }

    /// Another worker for a request that these brought no answer to; `None` where there is none.
    fn place_again(&self, asked: &Asked<'_>, tried: &[WorkerId], reason: RetryReason) -> Option<Decision> {
        if asked.hints.pin.is_some() || self.streams().cut.is_cancelled() {
            return None;
        }
        let decision = self.decide(&Asked { tried, ..*asked }, Duration::ZERO).ok()?;
        self.metrics().retried(reason);
        Some(decision)
    }
}
