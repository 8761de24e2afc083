//! One request to a worker and its answer, or why there is none.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kvroute_core::Phase;
use kvroute_engine::EngineKind;
use kvroute_metrics::{RetryReason, Stage};
use kvroute_openai::UpstreamBody;
use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::streamed::Streamed;
use crate::attempt::Attempt;
use crate::config::Timeouts;
use crate::error::error_text;
use crate::upstream::AnswerBody;

/// Largest whole answer. It has to be in memory, because its report stands at its end.
const LARGEST_ANSWER: usize = 256 << 20;

/// What a worker answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A stream, of which the head has come.
    Stream(Parts, Streamed),
    /// Everything, to its end.
    Whole(Parts, Bytes),
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
    /// Whether its status says so, and its first event where that was looked at.
    pub(crate) fn is_success(&self) -> bool {
        let (Self::Stream(head, _) | Self::Whole(head, _)) = self;
        head.status.is_success() && !self.began_with_fault()
    }

    /// Whether the worker could not serve the request: by its status, or by the first event of its stream.
    pub(crate) fn is_fault(&self) -> bool {
        let (Self::Stream(head, _) | Self::Whole(head, _)) = self;
        head.status.is_server_error() || self.began_with_fault()
    }

    /// What is held against the worker, in words. That it does not know a method or a version is no such thing.
    pub(crate) fn fault(&self) -> Option<String> {
        let (Self::Stream(head, _) | Self::Whole(head, _)) = self;
        if self.began_with_fault() {
            return Some("its stream began with an error".to_owned());
        }
        let is_of_request =
            matches!(head.status, StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED);
        let is_fault = head.status.is_server_error() && !is_of_request;
        is_fault.then(|| format!("it answered with status {}", head.status))
    }

    /// Why another worker may be asked; `None` where this is the answer.
    pub(crate) fn retry(&self) -> Option<RetryReason> {
        let (Self::Stream(head, _) | Self::Whole(head, _)) = self;
        match head.status {
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                Some(RetryReason::Unavailable)
            }
            StatusCode::INTERNAL_SERVER_ERROR => Some(RetryReason::Error),
            _ => self.began_with_fault().then_some(RetryReason::Error),
        }
    }

    const fn began_with_fault(&self) -> bool {
        match self {
            Self::Stream(_, streamed) => streamed.began_with_fault(),
            Self::Whole(..) => false,
        }
    }

    /// Sends a request to the attempt's worker and takes its answer: a stream up to its head, or to its first event where
    /// that may tell of a failure; anything else to its end.
    pub(super) async fn to(
        request: Request<Full<UpstreamBody>>,
        attempt: &mut Attempt,
        limits: &Limits,
    ) -> Result<Self, Failure> {
        let answer = head(request, attempt, limits).await?;
        let is_stream = answer.status().is_success() && is_event_stream(&answer);
        let (head, body) = answer.into_parts();
        if is_stream && !tells_failures_in_streams(attempt) {
            return Ok(Self::Stream(head, Streamed::unread(body)));
        }
        let cut = attempt.pool().streams().cut.clone();
        let read = async {
            Ok(match is_stream {
                true => Self::Stream(head, Streamed::begun(body, limits).await?),
                false => {
                    let body = read_whole(body, announced_length(&head), limits).await?;
                    check_complete(&head, &body)?;
                    Self::Whole(head, body)
                }
            })
        };
        cut.run_until_cancelled_owned(read).await.unwrap_or(Err(Failure::CutOff))
    }
}

async fn head(
    request: Request<Full<UpstreamBody>>,
    attempt: &mut Attempt,
    limits: &Limits,
) -> Result<Response<AnswerBody>, Failure> {
    let stage = attempt.pool().stages(attempt.phase()).enter(Stage::Dispatch);
    let (sent_at, head_until) = (Instant::now(), limits.started + limits.timeouts.first_byte);
    let cut = attempt.pool().streams().cut.clone();
    let had_it = attempt.hand_over();
    let pool = Arc::clone(attempt.pool());
    // Boxed: it would be moved through all that surrounds it.
    let answer = Box::pin(pool.upstream().send(request));
    let waited = timeout_at(limits.deadline.min(head_until), answer);
    let answer = match cut.run_until_cancelled_owned(waited).await {
        Some(Ok(Ok(answer))) => answer,
        Some(Ok(Err(error))) => {
            if error.is_connect() && !had_it {
                attempt.take_back();
            }
            return Err(Failure::Unanswered { error, has_broken: false });
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

/// Engines that send the head of a stream before they look at the request, and every one that takes a prompt over: the KV
/// may not be there.
fn tells_failures_in_streams(attempt: &Attempt) -> bool {
    attempt.rank().engine == EngineKind::Sglang || attempt.phase() == Phase::Decode
}

fn is_event_stream(answer: &Response<AnswerBody>) -> bool {
    is_of_type(answer.headers(), "text/event-stream")
}

/// A worker may say that less comes than it has: then the transport has nothing to object to half an answer.
fn check_complete(head: &Parts, body: &[u8]) -> Result<(), Failure> {
    let is_json = is_of_type(&head.headers, "application/json");
    let is_plain = !head.headers.contains_key(CONTENT_ENCODING);
    if body.is_empty() || !(head.status.is_success() && is_json && is_plain) {
        return Ok(());
    }
    match serde_json::from_slice::<IgnoredAny>(body) {
        Err(error) if error.is_eof() => Err(Failure::Broke("its answer is no complete JSON".to_owned())),
        _ => Ok(()),
    }
}

fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    let given = headers.get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes().trim_ascii_start());
    given.get(..media_type.len()).is_some_and(|start| start.eq_ignore_ascii_case(media_type.as_bytes()))
}

/// The length of a body as its head has it.
fn announced_length(head: &Parts) -> Option<usize> {
    head.headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read_whole(
    mut upstream: AnswerBody,
    announced: Option<usize>,
    limits: &Limits,
) -> Result<Bytes, Failure> {
    let Limits { timeouts, deadline, .. } = *limits;
    let mut body = BytesMut::new();
    loop {
        let idle_until = Instant::now() + timeouts.idle;
        let frame = match timeout_at(deadline.min(idle_until), upstream.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Failure::Broke(error_text(&error))),
            // A stream of HTTP/2 that its server gives up may look as if it had ended.
            Ok(None) => match announced.filter(|announced| body.len() < *announced) {
                Some(announced) => {
                    let cause = format!("its answer ended after {} of {announced} bytes", body.len());
                    return Err(Failure::Broke(cause));
                }
                None => return Ok(body.freeze()),
            },
            Err(_elapsed) if idle_until < deadline => return Err(Failure::TimedOut("idle", timeouts.idle)),
            Err(_elapsed) => return Err(Failure::TimedOut("total", timeouts.total)),
        };
        body.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if body.len() > LARGEST_ANSWER {
            return Err(Failure::Unusable(format!("its answer is larger than {LARGEST_ANSWER} bytes")));
        }
    }
}

// === impl Limits ===

impl Limits {
    /// The attempt's time begins.
    pub(crate) fn start(attempt: &Attempt) -> Self {
        let (timeouts, started) = (attempt.pool().timeouts(), Instant::now());
        Self { timeouts, started, deadline: started + timeouts.total }
    }

    /// Until when the first piece of a stream must come whose head came at this time, and what it is otherwise. An engine
    /// may send the head at once and compute long afterwards, so the longer one of two limits holds.
    pub(super) fn first_piece(&self, head_came: Instant) -> (Failure, Instant) {
        let (limit, after, until) = self.timeouts.first_piece(self.started, head_came);
        (Failure::TimedOut(limit, after), until)
    }

    /// The limit of everything is over.
    pub(super) const fn total(&self) -> Failure {
        Failure::TimedOut("total", self.timeouts.total)
    }
}
