//! Sends an attempt to its worker and turns the answer into the client's.
//!
//! A stream is asked for usage where its client did not ask, because the report stands in it; an engine that gives token
//! ids is asked for those where the history learns of generated text. An engine may refuse such a field; it is asked again
//! at once without it, and no more from then on. Nothing has reached the client by then, so it is still one attempt. So is
//! a request that was sent on a connection that its worker had closed meanwhile, and is sent once more.

mod exchange;
mod failure;
mod injected;
mod streamed;
mod told_error;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::response::Parts;
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use kvroute_core::{Phase, WorkerId};
use kvroute_engine::RankSteering;
use kvroute_funnel::Close;
use kvroute_metrics::{RequestRecorder, RetryReason};
use kvroute_openai::{
    BodyScan, Observation, StreamScanner, TokenIds, UpstreamBody, UpstreamEdits, UsageCorrection,
};

pub(crate) use self::exchange::{Answer, Limits};
pub(crate) use self::failure::Failure;
pub(crate) use self::injected::Injected;
pub(crate) use self::streamed::Streamed;
pub(crate) use self::told_error::{is_own_fault, tells_own_fault};
use crate::attempt::Attempt;
use crate::error::RouteError;
use crate::handover::Answered;
use crate::headers;
use crate::relay::{RelayBody, StreamRelay};
use crate::route::{Leg, Route};

/// The head of an answer, and the attempt that it belongs to.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) attempt: Attempt,
    pub(crate) answer: Answer,
    pub(crate) injected: Injected,
    pub(crate) limits: Limits,
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

/// Sends a leg to the attempt's worker. Whatever becomes of it, a trusted caller is told where it went: of those that fail
/// one wants to know it most.
pub(crate) async fn dispatch(mut attempt: Attempt, route: &Route, leg: &Leg) -> Result<Sent, Failed> {
    let limits = Limits::start(&attempt);
    match ask(&mut attempt, route, leg, &limits).await {
        Ok((answer, injected)) => Ok(Sent { attempt, answer, injected, limits }),
        Err(failure) => {
            let explanation = explanation(&attempt, route);
            let failed = failure.end(attempt);
            Err(Failed { error: failed.error.explained(explanation), ..failed })
        }
    }
}

/// Headers that tell a trusted caller how the attempt was placed.
pub(crate) fn explanation(attempt: &Attempt, route: &Route) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if route.explains {
        let name = if attempt.phase() == Phase::Prefill { headers::PREFILL_WORKER } else { headers::WORKER };
        let worker = (name, &attempt.rank().name);
        headers::explain(&mut headers, worker, attempt.predicted(), attempt.decision());
    }
    headers
}

// === impl Answered ===

impl Answered {
    /// The client's answer. The attempt ends here, or lives on in the stream that is returned.
    pub(crate) fn into_response(self, route: &Arc<Route>) -> Response<RelayBody> {
        let Self { sent, correction, explanation } = self;
        let Sent { attempt, answer, injected, limits } = sent;
        let ids = injected.ids_in_answer(&attempt);
        let mut response = match answer {
            Answer::Stream(head, upstream) => {
                let scanner =
                    StreamScanner::with_token_ids(injected.usage_chunk(), ids).correcting(correction);
                let relay = StreamRelay::new(upstream, scanner, route, attempt, limits.deadline);
                for_client(&head, route, RelayBody::stream(relay))
            }
            Answer::Whole(head, body) => whole(attempt, route, &head, body, ids, correction),
        };
        response.headers_mut().extend(explanation);
        response
    }
}

/// The worker's answer, and what was asked for it beyond what the client asks.
pub(crate) async fn ask(
    attempt: &mut Attempt,
    route: &Route,
    leg: &Leg,
    limits: &Limits,
) -> Result<(Answer, Injected), Failure> {
    let wanted = Injected::wanted(attempt, &route.request);
    let (mut injected, mut has_broken) = (wanted, false);
    loop {
        let request = upstream_request(attempt, route, leg, injected)?;
        let answer = match Answer::to(request, attempt, limits).await {
            Ok(answer) => answer,
            Err(failure) if has_broken => return Err(failure.behind_a_break()),
            Err(failure) if failure.is_stale() => {
                attempt.pool().metrics().retried(RetryReason::Stale);
                has_broken = true;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let Some(left) = injected.without_refused(&answer) else {
            wanted.remember(injected, &answer, &attempt.rank().worker);
            if let Some(fault) = answer.fault() {
                attempt.blame_worker(&fault);
            }
            return Ok((answer, injected));
        };
        injected = left;
    }
}

fn upstream_request(
    attempt: &Attempt,
    route: &Route,
    leg: &Leg,
    injected: Injected,
) -> Result<Request<Full<UpstreamBody>>, Failure> {
    let rank = attempt.rank();
    let steering = if rank.ranks_of_worker > 1 { rank.engine.rank_steering() } else { RankSteering::None };
    let mut members: Vec<_> = leg.members.iter().map(|(name, json)| (*name, json.as_deref())).collect();
    let salt = tenant_salt(attempt, route);
    members.extend(salt.as_deref().map(|salt| ("cache_salt", Some(salt))));
    let number;
    if let RankSteering::Member(name) = steering {
        number = rank.name.dp_rank.get().to_string();
        members.push((name, Some(number.as_str())));
    }
    let body = route.request.upstream_body(UpstreamEdits {
        inject_usage: injected.usage,
        keep_continuous: rank.engine.heeds_continuous_usage_alone(),
        return_token_ids: injected.token_ids,
        model: attempt.pool().model_for_worker(&route.request),
        members: &members,
    });
    let url = format!("{}{}", rank.worker.config().url, route.request.endpoint.path());
    let built = url
        .parse::<Uri>()
        .map_err(http::Error::from)
        .and_then(|uri| Request::builder().method(Method::POST).uri(uri).body(Full::new(body)));
    let mut request = built.map_err(|error| Failure::Unusable(error.to_string()))?;
    *request.headers_mut() = headers::for_worker(&route.headers, &route.request_id);
    attempt.propagate(request.headers_mut());
    if let RankSteering::Header(header) = steering {
        let value = HeaderValue::from(rank.name.dp_rank.get());
        request.headers_mut().insert(HeaderName::from_static(header), value);
    }
    Ok(request)
}

/// The salt of the request's tenant as JSON, in the place of what the client sent.
fn tenant_salt(attempt: &Attempt, route: &Route) -> Option<String> {
    let salt = route.salt.as_deref()?;
    if !attempt.rank().engine.takes_cache_salt() {
        attempt.pool().warn_unsalted(attempt.rank());
        return None;
    }
    Some(serde_json::Value::from(salt).to_string())
}

/// Closes the books of an answer that is known to its end.
fn whole(
    mut attempt: Attempt,
    route: &Route,
    head: &Parts,
    body: Bytes,
    ids: TokenIds,
    correction: UsageCorrection,
) -> Response<RelayBody> {
    if !head.status.is_success() {
        tracing::debug!(worker = %attempt.rank().name, status = %head.status, "worker refused a request");
        match head.status.is_client_error() {
            true => attempt.finish_refused(),
            false => attempt.finish(Close::Failed),
        }
        return for_client(head, route, RelayBody::whole(body));
    }
    let scan = BodyScan::read_correcting(body, ids, correction);
    attempt.observe(&scan.observations, &scan.token_ids);
    if let Some(id) = &scan.response_id {
        attempt.rank().made_response(id);
    }
    let has_failed = scan.observations.contains(&Observation::Error);
    if has_failed && is_own_fault(&scan.forward) {
        attempt.blame_worker("it answered with an error");
    }
    attempt.finish(if has_failed { Close::Failed } else { Close::Completed });
    for_client(head, route, RelayBody::whole(scan.forward))
}

fn for_client(head: &Parts, route: &Route, body: RelayBody) -> Response<RelayBody> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = headers::for_client(&head.headers, &route.request_id);
    response
}
