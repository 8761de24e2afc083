//! Which headers cross the router, in both directions.
//!
//! Everything passes except what belongs to one connection (RFC 9110, 7.6.1), what the router sets itself, and
//! `accept-encoding`: a compressed answer could not be read for its report. Headers of the router's own name end here
//! in both directions: what they say of a decision must come from whoever took it.

use std::fmt;

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use kvroute_core::{Tokens, WorkerRank};

/// Names a request in logs, at the engine and in the answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the names of the router's own headers begin with.
pub(crate) const OWN_PREFIX: &str = "x-kvroute-";

/// In a request the worker that it must go to, in an answer the one that it went to.
pub(crate) const WORKER: HeaderName = HeaderName::from_static("x-kvroute-worker");

/// The worker that computed the prompt, where that is another one.
pub(crate) const PREFILL_WORKER: HeaderName = HeaderName::from_static("x-kvroute-prefill-worker");

const PREDICTED: HeaderName = HeaderName::from_static("x-kvroute-predicted-cached-tokens");
const DECISION: HeaderName = HeaderName::from_static("x-kvroute-decision");

/// Headers that the router adds to a request at most: its name, its host, its place in a trace, the rank.
const ADDED: usize = 5;

/// Headers for the worker: the client's, less what must not cross.
pub(crate) fn for_worker(client: &HeaderMap, request_id: &HeaderValue) -> HeaderMap {
    crossing(client, |name| [HOST, EXPECT, ACCEPT_ENCODING].contains(name), request_id)
}

/// Headers for the client: the worker's, less what must not cross.
pub(crate) fn for_client(worker: &HeaderMap, request_id: &HeaderValue) -> HeaderMap {
    crossing(worker, |_| false, request_id)
}

/// Tells a trusted caller where its request went, how much of the prompt should be cached there, and the name under
/// which the decision can be asked for. What is not known is left out.
pub(crate) fn explain(
    headers: &mut HeaderMap,
    (name, worker): (HeaderName, &WorkerRank),
    predicted: Option<Tokens>,
    decision: Option<impl fmt::Display>,
) {
    let mut set = |name: HeaderName, text: &str| match HeaderValue::from_str(text) {
        Ok(value) => drop(headers.insert(name, value)),
        Err(error) => tracing::warn!(%name, %error, "header left out, its value cannot stand in one"),
    };
    set(name, &worker.to_string());
    if let Some(predicted) = predicted {
        set(PREDICTED, &predicted.get().to_string());
    }
    if let Some(decision) = decision {
        set(DECISION, &decision.to_string());
    }
}

/// All but what belongs to one connection, what is the router's own, and what else `stays`; with the name of the request.
fn crossing(from: &HeaderMap, stays: impl Fn(&HeaderName) -> bool, request_id: &HeaderValue) -> HeaderMap {
    let named = named_by_connection(from);
    let mut headers = HeaderMap::with_capacity(from.len() + ADDED);
    for (name, value) in from {
        let is_named = named.iter().any(|named| name.as_str().eq_ignore_ascii_case(named));
        if !(is_named || is_of_one_connection(name) || is_own(name) || stays(name)) {
            headers.append(name, value.clone());
        }
    }
    headers.insert(REQUEST_ID, request_id.clone());
    headers
}

/// What a sender says of its own headers: these belong to the connection as well.
fn named_by_connection(headers: &HeaderMap) -> Vec<&str> {
    let lists = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',').map(str::trim)).collect()
}

fn is_of_one_connection(name: &HeaderName) -> bool {
    let names = [CONNECTION, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, CONTENT_LENGTH];
    names.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with(OWN_PREFIX)
}

#[cfg(test)]
mod tests {
    use kvroute_core::{DpRank, WorkerId};

    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
        headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[test]
    fn connection_headers_and_the_ones_they_name_stay_behind() {
        let client = map(&[
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("content-length", "7"),
            ("accept-encoding", "gzip"),
            ("host", "router"),
            ("authorization", "Bearer key"),
            ("x-anything", "kept"),
        ]);
        let sent = for_worker(&client, &HeaderValue::from_static("id-1"));
        assert_eq!(names(&sent), ["authorization", "x-anything", "x-request-id"]);
    }

    #[test]
    fn the_routers_own_headers_cross_in_neither_direction_and_a_session_does() {
        let given = map(&[
            ("x-kvroute-worker", "a:1"),
            ("x-kvroute-worker", "b:1"),
            ("x-kvroute-override", "temperature=1"),
            ("x-kvroute-decision", "forged"),
            ("x-kvroute-of-later", "1"),
            ("x-session-id", "alice"),
            ("x-kvrouter", "somebody else's"),
        ]);
        let id = HeaderValue::from_static("id-1");
        for crossed in [for_worker(&given, &id), for_client(&given, &id)] {
            assert_eq!(names(&crossed), ["x-kvrouter", "x-request-id", "x-session-id"]);
            assert_eq!(text(&crossed, "x-session-id"), Some("alice"));
        }
    }

    #[test]
    fn an_explanation_tells_what_is_known_and_leaves_out_the_rest() {
        let worker = WorkerRank::new(WorkerId::new("a:1"), DpRank::new(2));
        let mut headers = map(&[("x-request-id", "id-1")]);
        explain(&mut headers, (WORKER, &worker), Some(Tokens::new(48)), Some("d-7"));
        assert_eq!(text(&headers, "x-kvroute-worker"), Some("a:1/2"));
        assert_eq!(text(&headers, "x-kvroute-predicted-cached-tokens"), Some("48"));
        assert_eq!(text(&headers, "x-kvroute-decision"), Some("d-7"));
        let mut headers = HeaderMap::new();
        explain(&mut headers, (WORKER, &worker), None, None::<&str>);
        assert_eq!(names(&headers), ["x-kvroute-worker"]);
    }
}
