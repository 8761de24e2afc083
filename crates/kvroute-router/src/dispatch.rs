//! Sends an attempt to its worker and turns the answer into the client's.

use std::error::Error as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Error as ClientError;
use kvroute_funnel::Close;
use kvroute_metrics::Stage;
use kvroute_openai::{BodyScan, ClientRequest, UpstreamEdits, UsageChunk};
use tokio::time::{Instant, timeout_at};

use crate::attempt::Attempt;
use crate::config::Timeouts;
use crate::error::{ErrorKind, RouteError, error_text};
use crate::headers;
use crate::relay::{RelayBody, StreamRelay};

/// Largest whole answer. It has to be in memory, because its report stands at its end.
const LARGEST_ANSWER: usize = 256 << 20;

/// ENFILE, EMFILE and EADDRNOTAVAIL: this process ran out of something, which says nothing about a worker.
const SHORTAGES: [i32; 3] = [23, 24, 99];

/// One request with what names it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) request: Arc<ClientRequest>,
    pub(crate) headers: HeaderMap,
    pub(crate) request_id: HeaderValue,
    /// Whether the caller may see how it was placed.
    pub(crate) explains: bool,
}

// === impl Call ===

impl Call {
    /// Headers that tell a trusted caller how the attempt was placed.
    fn explanation(&self, attempt: &Attempt) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.explains {
            let worker = &attempt.rank().name;
            headers::explain(&mut headers, worker, attempt.predicted(), attempt.decision());
        }
        headers
    }
}

/// Sends the call to the attempt's worker. The attempt ends here, or lives on in the stream that is returned. Whatever
/// becomes of it, a trusted caller is told where it went: of those that fail one wants to know it most.
pub(crate) async fn dispatch(attempt: Attempt, call: &Call) -> Result<Response<RelayBody>, RouteError> {
    let explanation = call.explanation(&attempt);
    match send(attempt, call).await {
        Ok(mut response) => {
            response.headers_mut().extend(explanation);
            Ok(response)
        }
        Err(error) => Err(error.explained(explanation)),
    }
}

async fn send(mut attempt: Attempt, call: &Call) -> Result<Response<RelayBody>, RouteError> {
    let timeouts = *attempt.pool().timeouts();
    let started = Instant::now();
    let deadline = started + timeouts.total;
    let stage = attempt.pool().stages().enter(Stage::Dispatch);
    let request = match upstream_request(&attempt, call) {
        Ok(request) => request,
        Err(error) => return Err(broke(attempt, error.to_string())),
    };
    let sent = attempt.pool().client().request(request);
    let head_until = started + timeouts.first_byte;
    let cut = attempt.pool().streams().cut.clone();
    let answer = match cut.run_until_cancelled_owned(timeout_at(deadline.min(head_until), sent)).await {
        Some(Ok(Ok(answer))) => answer,
        Some(Ok(Err(error))) => return Err(refused(attempt, &error)),
        Some(Err(_elapsed)) if head_until < deadline => {
            return Err(timed_out(attempt, "first_byte", timeouts.first_byte));
        }
        Some(Err(_elapsed)) => return Err(timed_out(attempt, "total", timeouts.total)),
        None => return Err(cut_off(attempt)),
    };
    if answer.status().is_informational() {
        let cause = format!("it answered with {}, which nobody asked for", answer.status());
        return Err(broke(attempt, cause));
    }
    stage.passed(started.elapsed());
    attempt.dispatched(answer.status().is_success());
    if answer.status().is_success() && is_event_stream(&answer) {
        return Ok(stream(attempt, call, answer, deadline));
    }
    whole(attempt, call, answer, deadline).await
}

fn upstream_request(attempt: &Attempt, call: &Call) -> Result<Request<Full<Bytes>>, http::Error> {
    let rank = attempt.rank();
    let uri = format!("{}{}", rank.worker.config().url, call.request.endpoint.path()).parse::<Uri>()?;
    let body = call.request.upstream_body(UpstreamEdits {
        inject_usage: rank.engine.accepts_stream_options(),
        model: attempt.pool().model_for_worker(&call.request),
    });
    let mut request = Request::builder().method(Method::POST).uri(uri).body(Full::new(body))?;
    *request.headers_mut() = headers::for_worker(&call.headers, &call.request_id);
    if let Some(header) = rank.engine.rank_header().filter(|_| rank.ranks_of_worker > 1) {
        let value = HeaderValue::from(rank.name.dp_rank.get());
        request.headers_mut().insert(HeaderName::from_static(header), value);
    }
    Ok(request)
}

fn is_event_stream(answer: &Response<Incoming>) -> bool {
    let media_type = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.is_some_and(|text| text.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

fn stream(
    attempt: Attempt,
    call: &Call,
    answer: Response<Incoming>,
    deadline: Instant,
) -> Response<RelayBody> {
    let injected = call.request.lacks_usage() && attempt.rank().engine.accepts_stream_options();
    let usage = if injected { UsageChunk::Withhold } else { UsageChunk::Forward };
    let (head, upstream) = answer.into_parts();
    let relay = StreamRelay::new(upstream, usage, attempt, deadline);
    for_client(&head, call, RelayBody::stream(relay))
}

async fn whole(
    mut attempt: Attempt,
    call: &Call,
    answer: Response<Incoming>,
    deadline: Instant,
) -> Result<Response<RelayBody>, RouteError> {
    let timeouts = *attempt.pool().timeouts();
    let (head, upstream) = answer.into_parts();
    let cut = attempt.pool().streams().cut.clone();
    let body = match cut.run_until_cancelled_owned(read_whole(upstream, &timeouts, deadline)).await {
        Some(Ok(body)) => body,
        Some(Err(Unread::Broken(cause))) => return Err(broke(attempt, cause)),
        Some(Err(Unread::TimedOut(limit, after))) => return Err(timed_out(attempt, limit, after)),
        None => return Err(cut_off(attempt)),
    };
    if !head.status.is_success() {
        tracing::debug!(worker = %attempt.rank().name, status = %head.status, "worker refused a request");
        attempt.finish(Close::Failed);
        return Ok(for_client(&head, call, RelayBody::whole(body)));
    }
    let scan = BodyScan::read(body);
    for observation in &scan.observations {
        attempt.observe(observation);
    }
    attempt.finish(Close::Completed);
    Ok(for_client(&head, call, RelayBody::whole(scan.forward)))
}

/// A whole answer that did not come to its end.
enum Unread {
    Broken(String),
    TimedOut(&'static str, Duration),
}

async fn read_whole(mut upstream: Incoming, timeouts: &Timeouts, deadline: Instant) -> Result<Bytes, Unread> {
    let mut body = BytesMut::new();
    loop {
        let idle_until = Instant::now() + timeouts.idle;
        let frame = match timeout_at(deadline.min(idle_until), upstream.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Unread::Broken(error_text(&error))),
            Ok(None) => return Ok(body.freeze()),
            Err(_elapsed) if idle_until < deadline => return Err(Unread::TimedOut("idle", timeouts.idle)),
            Err(_elapsed) => return Err(Unread::TimedOut("total", timeouts.total)),
        };
        body.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        if body.len() > LARGEST_ANSWER {
            return Err(Unread::Broken(format!("its answer is larger than {LARGEST_ANSWER} bytes")));
        }
    }
}

fn for_client(head: &http::response::Parts, call: &Call, body: RelayBody) -> Response<RelayBody> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = headers::for_client(&head.headers, &call.request_id);
    response
}

/// The client library's error before any answer: the worker could not be reached, or it broke.
fn refused(attempt: Attempt, error: &ClientError) -> RouteError {
    let cause = error_text(error);
    let io_error = io_error_of(error);
    let is_own_shortage =
        io_error.and_then(io::Error::raw_os_error).is_some_and(|code| SHORTAGES.contains(&code));
    if is_own_shortage || !error.is_connect() {
        attempt.rank().worker.doubt.notify_one();
        return broke(attempt, cause);
    }
    attempt.rank().worker.found_unreachable(&cause);
    if io_error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut) {
        let after = attempt.pool().timeouts().connect;
        return timed_out(attempt, "connect", after);
    }
    broke(attempt, cause)
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

fn broke(attempt: Attempt, cause: String) -> RouteError {
    fail(attempt, |worker| ErrorKind::UpstreamBroke { worker, cause })
}

fn timed_out(attempt: Attempt, limit: &'static str, after: Duration) -> RouteError {
    attempt.rank().worker.doubt.notify_one();
    fail(attempt, |worker| ErrorKind::Timeout { worker, limit, after })
}

/// The router stops before the answer has begun, or before a whole one has ended: unlike a stream that runs, it can still
/// be refused properly.
fn cut_off(attempt: Attempt) -> RouteError {
    attempt.finish(Close::Failed);
    RouteError::router(ErrorKind::Stopping)
}

fn fail(attempt: Attempt, kind: impl FnOnce(String) -> ErrorKind) -> RouteError {
    let rank = attempt.rank().name.clone();
    let error = RouteError::worker(rank.clone(), kind(rank.worker.to_string()));
    tracing::warn!(worker = %rank, %error, "attempt failed");
    attempt.finish(Close::Failed);
    error
}
