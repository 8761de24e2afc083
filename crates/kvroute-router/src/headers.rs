//! Which headers cross the router, in both directions.
//!
//! Everything passes except what belongs to one connection (RFC 9110, 7.6.1), what the router sets itself, and
//! `accept-encoding`: a compressed answer could not be read for its report.

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRAILER, TRANSFER_ENCODING, UPGRADE,
};

/// Names a request in logs, at the engine and in the answer.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHORIZATION: HeaderName = HeaderName::from_static("proxy-authorization");

const OF_ONE_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    CONTENT_LENGTH,
];

/// Headers for the worker: the client's, less what must not cross.
pub(crate) fn for_worker(client: &HeaderMap, request_id: &HeaderValue) -> HeaderMap {
    let mut headers = crossing(client);
    for name in [HOST, EXPECT, ACCEPT_ENCODING] {
        headers.remove(name);
    }
    headers.insert(REQUEST_ID, request_id.clone());
    headers
}

/// Headers for the client: the worker's, less what must not cross.
pub(crate) fn for_client(worker: &HeaderMap, request_id: &HeaderValue) -> HeaderMap {
    let mut headers = crossing(worker);
    headers.insert(REQUEST_ID, request_id.clone());
    headers
}

fn crossing(from: &HeaderMap) -> HeaderMap {
    let mut headers = from.clone();
    for named in from.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()) {
        for name in named.split(',') {
            headers.remove(name.trim());
        }
    }
    for name in OF_ONE_CONNECTION {
        headers.remove(name);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_headers_and_the_ones_they_name_stay_behind() {
        let mut client = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("content-length", "7"),
            ("accept-encoding", "gzip"),
            ("host", "router"),
            ("authorization", "Bearer key"),
            ("x-anything", "kept"),
        ] {
            client.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let sent = for_worker(&client, &HeaderValue::from_static("id-1"));
        let mut names: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "x-anything", "x-request-id"]);
    }
}
