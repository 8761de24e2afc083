//! Why a worker brought no answer, and what follows from it: what the client is told, whether another worker may be asked,
//! and whether it is held against the worker.

use std::io;
use std::time::Duration;

use kvroute_engine::{io_error_in, is_shortage};
use kvroute_metrics::RetryReason;

use super::Failed;
use crate::attempt::Attempt;
use crate::error::{ErrorKind, RouteError, error_text};
use crate::upstream::Unanswered;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The worker broke, in the transport's own words.
    Broke(String),
    /// The answer cannot be used, and that is no fault of the worker.
    Unusable(String),
    /// The worker computed a prompt for another one and did not say where that finds it; what to do about it.
    NotHandedOver(String),
    /// There was no answer at all.
    Unanswered {
        error: Unanswered,
        /// Whether a connection to the worker had broken under the request before.
        has_broken: bool,
    },
    /// One of the pool's limits, by its name.
    TimedOut(&'static str, Duration),
    /// The router stops.
    CutOff,
}

// === impl Failure ===

impl Failure {
    /// Ends the attempt that has no answer, and says what its client is told unless the request goes elsewhere.
    pub(crate) fn end(self, attempt: Attempt) -> Failed {
        match self {
            Self::Broke(cause) => broke(attempt, cause, RetryReason::Broken),
            Self::Unusable(cause) => fail(attempt, |worker| ErrorKind::UpstreamBroke { worker, cause }, None),
            Self::NotHandedOver(remedy) => not_handed_over(attempt, remedy),
            Self::Unanswered { error, has_broken } => unanswered(attempt, &error, has_broken),
            Self::TimedOut(limit, after) => timed_out(attempt, limit, after, None),
            Self::CutOff => cut_off(attempt),
        }
    }

    /// Whether the worker had closed the connection before the request came, as far as can be told.
    pub(super) fn is_stale(&self) -> bool {
        match self {
            Self::Unanswered { error, has_broken } => !has_broken && error.is_stale(),
            _ => false,
        }
    }

    /// The same where a connection had broken under the request before.
    pub(super) fn behind_a_break(self) -> Self {
        match self {
            Self::Unanswered { error, .. } => Self::Unanswered { error, has_broken: true },
            other => other,
        }
    }
}

/// There is no answer at all: the worker could not be reached, or it broke.
fn unanswered(attempt: Attempt, error: &Unanswered, has_broken: bool) -> Failed {
    let cause = error_text(error);
    if is_shortage(error) {
        return out_of_resources(attempt, cause);
    }
    if !error.is_connect() {
        return broke(attempt, cause, RetryReason::Broken);
    }
    attempt.rank().worker.found_unreachable(&cause);
    let reason = if has_broken { RetryReason::Broken } else { RetryReason::Connect };
    if io_error_in(error).is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
        let after = attempt.pool().timeouts().connect;
        return timed_out(attempt, "connect", after, Some(reason));
    }
    broke(attempt, cause, reason)
}

fn broke(mut attempt: Attempt, cause: String, retry: RetryReason) -> Failed {
    attempt.blame_worker(&cause);
    attempt.rank().worker.doubt.notify_one();
    fail(attempt, |worker| ErrorKind::UpstreamBroke { worker, cause }, Some(retry))
}

/// The total limit is the request's own: a long answer is no fault of the worker.
fn timed_out(
    mut attempt: Attempt,
    limit: &'static str,
    after: Duration,
    retry: Option<RetryReason>,
) -> Failed {
    if limit != "total" {
        attempt.blame_worker(&format!("it exceeded timeouts.{limit} of {after:?}"));
    }
    attempt.rank().worker.doubt.notify_one();
    fail(attempt, |worker| ErrorKind::Timeout { worker, limit, after }, retry)
}

fn not_handed_over(mut attempt: Attempt, remedy: String) -> Failed {
    attempt.blame_worker("it computes prompts for others and does not say where their KV lies");
    fail(attempt, |worker| ErrorKind::NotHandedOver { worker, remedy }, Some(RetryReason::Broken))
}

/// Another worker could not be reached either.
fn out_of_resources(attempt: Attempt, cause: String) -> Failed {
    let worker = attempt.rank().name.worker.clone();
    let error = RouteError::router(ErrorKind::OutOfResources { cause });
    tracing::warn!(worker = %attempt.rank().name, %error, "attempt failed");
    Failed { error, worker, retry: None, recorder: attempt.fail() }
}

/// The router stops before the answer has begun, or before a whole one has ended: unlike a stream that runs, it can still
/// be refused properly.
fn cut_off(attempt: Attempt) -> Failed {
    let worker = attempt.rank().name.worker.clone();
    let error = RouteError::router(ErrorKind::Stopping);
    Failed { error, worker, retry: None, recorder: attempt.fail() }
}

fn fail(attempt: Attempt, kind: impl FnOnce(String) -> ErrorKind, retry: Option<RetryReason>) -> Failed {
    let rank = attempt.rank().name.clone();
    let error = RouteError::worker(rank.clone(), kind(rank.worker.to_string()));
    tracing::warn!(worker = %rank, %error, "attempt failed");
    Failed { error, worker: rank.worker, retry, recorder: attempt.fail() }
}
