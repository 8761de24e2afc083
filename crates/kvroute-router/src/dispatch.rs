//! Sends an attempt to its worker and turns the answer into the client's.
//!
//! A stream is asked for usage where its client did not ask, because the report stands in it; an engine that gives token
//! ids is asked for those where the history learns of generated text. An engine may refuse such a field; it is asked again
//! at once without it, and no more from then on. Nothing has reached the client by then, so it is still one attempt.

mod exchange;
mod injected;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use kvroute_core::WorkerId;
use kvroute_funnel::Close;
use kvroute_metrics::{RequestRecorder, RetryReason};
use kvroute_openai::{BodyScan, ClientRequest, Observation, StreamScanner, TokenIds, UpstreamEdits};

use self::exchange::{Answer, Failure, Limits};
use self::injected::Injected;
use crate::attempt::Attempt;
use crate::error::RouteError;
use crate::headers;
use crate::relay::{RelayBody, StreamRelay};

/// One request with what names it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) request: Arc<ClientRequest>,
    pub(crate) headers: HeaderMap,
    pub(crate) request_id: HeaderValue,
    /// Whether the caller may see how it was placed.
    pub(crate) explains: bool,
}

/// An attempt that brought no answer. Its books are closed, but for those of its request.
#[derive(Debug)]
pub(crate) struct Failed {
    /// What the client is told if that was the last attempt.
    pub(crate) error: RouteError,
    pub(crate) worker: WorkerId,
    /// Why the request may be sent to another worker; `None` where it must not.
    pub(crate) retry: Option<RetryReason>,
    pub(crate) recorder: Option<RequestRecorder>,
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
pub(crate) async fn dispatch(attempt: Attempt, call: &Call) -> Result<Response<RelayBody>, Failed> {
    let explanation = call.explanation(&attempt);
    match send(attempt, call).await {
        Ok(mut response) => {
            response.headers_mut().extend(explanation);
            Ok(response)
        }
        Err(failed) => Err(Failed { error: failed.error.explained(explanation), ..failed }),
    }
}

async fn send(mut attempt: Attempt, call: &Call) -> Result<Response<RelayBody>, Failed> {
    let limits = Limits::start(&attempt);
    match ask(&mut attempt, call, &limits).await {
        Ok((Answer::Stream(head, upstream), injected)) => {
            let ids = injected.ids_in_answer(&attempt);
            let scanner = StreamScanner::with_token_ids(injected.usage_chunk(), ids);
            let relay = StreamRelay::new(upstream, scanner, call.request.endpoint, attempt, limits.deadline);
            Ok(for_client(&head, call, RelayBody::stream(relay)))
        }
        Ok((Answer::Whole(head, body), injected)) => {
            let ids = injected.ids_in_answer(&attempt);
            Ok(whole(attempt, call, &head, body, ids))
        }
        Err(failure) => Err(failure.end(attempt)),
    }
}

/// The worker's answer, and what was asked for it beyond what the client asks.
async fn ask(attempt: &mut Attempt, call: &Call, limits: &Limits) -> Result<(Answer, Injected), Failure> {
    let wanted = Injected::wanted(attempt, call);
    let mut injected = wanted;
    loop {
        let request = upstream_request(attempt, call, injected)?;
        let answer = Answer::to(request, attempt, limits).await?;
        let Some(left) = injected.without_refused(&answer) else {
            wanted.remember(injected, &answer, &attempt.rank().worker);
            return Ok((answer, injected));
        };
        injected = left;
    }
}

fn upstream_request(
    attempt: &Attempt,
    call: &Call,
    injected: Injected,
) -> Result<Request<Full<Bytes>>, Failure> {
    let rank = attempt.rank();
    let body = call.request.upstream_body(UpstreamEdits {
        inject_usage: injected.usage,
        keep_continuous: rank.engine.heeds_continuous_usage_alone(),
        return_token_ids: injected.token_ids,
        model: attempt.pool().model_for_worker(&call.request),
    });
    let url = format!("{}{}", rank.worker.config().url, call.request.endpoint.path());
    let built = url
        .parse::<Uri>()
        .map_err(http::Error::from)
        .and_then(|uri| Request::builder().method(Method::POST).uri(uri).body(Full::new(body)));
    let mut request = built.map_err(|error| Failure::Broke(error.to_string()))?;
    *request.headers_mut() = headers::for_worker(&call.headers, &call.request_id);
    if let Some(header) = rank.engine.rank_header().filter(|_| rank.ranks_of_worker > 1) {
        let value = HeaderValue::from(rank.name.dp_rank.get());
        request.headers_mut().insert(HeaderName::from_static(header), value);
    }
    Ok(request)
}

/// Closes the books of an answer that is known to its end.
fn whole(mut attempt: Attempt, call: &Call, head: &Parts, body: Bytes, ids: TokenIds) -> Response<RelayBody> {
    if !head.status.is_success() {
        tracing::debug!(worker = %attempt.rank().name, status = %head.status, "worker refused a request");
        match head.status.is_client_error() {
            true => attempt.finish_refused(),
            false => attempt.finish(Close::Failed),
        }
        return for_client(head, call, RelayBody::whole(body));
    }
    let scan = BodyScan::read_with(body, ids);
    for observation in &scan.observations {
        attempt.observe(observation, &scan.token_ids);
    }
    if let Some(id) = &scan.response_id {
        attempt.rank().made_response(id);
    }
    let has_failed = scan.observations.contains(&Observation::Error);
    attempt.finish(if has_failed { Close::Failed } else { Close::Completed });
    for_client(head, call, RelayBody::whole(scan.forward))
}

fn for_client(head: &Parts, call: &Call, body: RelayBody) -> Response<RelayBody> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = headers::for_client(&head.headers, &call.request_id);
    response
}
