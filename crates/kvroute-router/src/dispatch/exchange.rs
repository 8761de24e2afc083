//! One request to a worker and its answer, or why there is none.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::response::Parts;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Error as ClientError;
use kvroute_metrics::{RetryReason, Stage};
use tokio::time::{Instant, timeout_at};

use super::Failed;
use crate::attempt::Attempt;
use crate::config::Timeouts;
use crate::error::{ErrorKind, RouteError, error_text};

/// Largest whole answer. It has to be in memory, because its report stands at its end.
const LARGEST_ANSWER: usize = 256 << 20;

/// ENFILE, EMFILE and EADDRNOTAVAIL: this process ran out of something, which says nothing about a worker.
const SHORTAGES: [i32; 3] = [23, 24, 99];

/// What a worker answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A stream, of which the head has come.
    Stream(Parts, Incoming),
    /// Everything, to its end.
    Whole(Parts, Bytes),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The worker, in the transport's own words.
    Broke(String),
    /// The client library had no answer at all.
    Unanswered(ClientError),
    /// One of the pool's limits, by its name.
    TimedOut(&'static str, Duration),
    /// The router stops.
    CutOff,
}

/// The time that an attempt has, however often its worker is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    timeouts: Timeouts,
    started: Instant,
    pub(crate) deadline: Instant,
}

// === impl Answer ===

impl Answer {
    /// Whether its status says so.
    pub(crate) fn is_success(&self) -> bool {
        let (Self::Stream(head, _) | Self::Whole(head, _)) = self;
        head.status.is_success()
    }

    /// Whether its status says that the worker could not serve the request.
    pub(crate) fn is_fault(&self) -> bool {
        let (Self::Stream(head, _) | Self::Whole(head, _)) = self;
        head.status.is_server_error()
    }

    /// Sends a request to the attempt's worker and takes its answer: a stream up to its head, anything else to its end.
    pub(super) async fn to(
        request: Request<Full<Bytes>>,
        attempt: &mut Attempt,
        limits: &Limits,
    ) -> Result<Self, Failure> {
        let answer = head(request, attempt, limits).await?;
        let is_stream = answer.status().is_success() && is_event_stream(&answer);
        let (head, body) = answer.into_parts();
        if is_stream {
            return Ok(Self::Stream(head, body));
        }
        let cut = attempt.pool().streams().cut.clone();
        match cut.run_until_cancelled_owned(read_whole(body, limits)).await {
            Some(read) => Ok(Self::Whole(head, read?)),
            None => Err(Failure::CutOff),
        }
    }
}

async fn head(
    request: Request<Full<Bytes>>,
    attempt: &mut Attempt,
    limits: &Limits,
) -> Result<Response<Incoming>, Failure> {
    let stage = attempt.pool().stages(attempt.phase()).enter(Stage::Dispatch);
    let (sent_at, head_until) = (Instant::now(), limits.started + limits.timeouts.first_byte);
    let cut = attempt.pool().streams().cut.clone();
    let had_it = attempt.hand_over();
    let answer = attempt.pool().client().request(request);
    let waited = timeout_at(limits.deadline.min(head_until), answer);
    let answer = match cut.run_until_cancelled_owned(waited).await {
        Some(Ok(Ok(answer))) => answer,
        Some(Ok(Err(error))) => {
            if error.is_connect() && !had_it {
                attempt.take_back();
            }
            return Err(Failure::Unanswered(error));
        }
        Some(Err(_elapsed)) if head_until < limits.deadline => {
            return Err(Failure::TimedOut("first_byte", limits.timeouts.first_byte));
        }
        Some(Err(_elapsed)) => return Err(Failure::TimedOut("total", limits.timeouts.total)),
        None => return Err(Failure::CutOff),
    };
    if answer.status().is_informational() {
        let cause = format!("it answered with {}, which nobody asked for", answer.status());
        return Err(Failure::Broke(cause));
    }
    stage.passed(sent_at.elapsed());
    if answer.status().is_success() {
        attempt.taken();
    }
    Ok(answer)
}

fn is_event_stream(answer: &Response<Incoming>) -> bool {
    let media_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|text| text.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

async fn read_whole(mut upstream: Incoming, limits: &Limits) -> Result<Bytes, Failure> {
    let Limits { timeouts, deadline, .. } = *limits;
    let mut body = BytesMut::new();
    loop {
        let idle_until = Instant::now() + timeouts.idle;
        let frame = match timeout_at(deadline.min(idle_until), upstream.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Failure::Broke(error_text(&error))),
            Ok(None) => return Ok(body.freeze()),
            Err(_elapsed) if idle_until < deadline => return Err(Failure::TimedOut("idle", timeouts.idle)),
            Err(_elapsed) => return Err(Failure::TimedOut("total", timeouts.total)),
        };
        body.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if body.len() > LARGEST_ANSWER {
            return Err(Failure::Broke(format!("its answer is larger than {LARGEST_ANSWER} bytes")));
        }
    }
}

// === impl Failure ===

impl Failure {
    /// Ends the attempt that has no answer, and says what its client is told unless the request goes elsewhere.
    pub(crate) fn end(self, attempt: Attempt) -> Failed {
        match self {
            Self::Broke(cause) => broke(attempt, cause, None),
            Self::Unanswered(error) => unanswered(attempt, &error),
            Self::TimedOut(limit, after) => timed_out(attempt, limit, after, None),
            Self::CutOff => cut_off(attempt),
        }
    }
}

/// The client library's error before any answer: the worker could not be reached, or it broke.
fn unanswered(attempt: Attempt, error: &ClientError) -> Failed {
    let cause = error_text(error);
    let io_error = io_error_of(error);
    if io_error.and_then(io::Error::raw_os_error).is_some_and(|code| SHORTAGES.contains(&code)) {
        attempt.rank().worker.doubt.notify_one();
        return broke(attempt, cause, None);
    }
    if !error.is_connect() {
        attempt.rank().worker.doubt.notify_one();
        return broke(attempt, cause, Some(RetryReason::Broken));
    }
    attempt.rank().worker.found_unreachable(&cause);
    if io_error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
        let after = attempt.pool().timeouts().connect;
        return timed_out(attempt, "connect", after, Some(RetryReason::Connect));
    }
    broke(attempt, cause, Some(RetryReason::Connect))
}

fn io_error_of(error: &ClientError) -> Option<&io::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

fn broke(attempt: Attempt, cause: String, retry: Option<RetryReason>) -> Failed {
    fail(attempt, |worker| ErrorKind::UpstreamBroke { worker, cause }, retry)
}

fn timed_out(attempt: Attempt, limit: &'static str, after: Duration, retry: Option<RetryReason>) -> Failed {
    attempt.rank().worker.doubt.notify_one();
    fail(attempt, |worker| ErrorKind::Timeout { worker, limit, after }, retry)
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

// === impl Limits ===

impl Limits {
    /// The attempt's time begins.
    pub(crate) fn start(attempt: &Attempt) -> Self {
        let (timeouts, started) = (*attempt.pool().timeouts(), Instant::now());
        Self { timeouts, started, deadline: started + timeouts.total }
    }
}
