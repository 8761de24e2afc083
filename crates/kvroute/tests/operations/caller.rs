//! A client that is told of every failure instead of failing by it.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// Nothing in a test takes longer than this unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// How soon a condition is looked at again.
const LOOKED_EVERY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) struct Caller(Client<HttpConnector, Full<Bytes>>);

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new() -> Self {
        Self(Builder::new(TokioExecutor::new()).build_http())
    }

    /// The whole answer, or why there is none.
    pub(crate) async fn ask(&self, method: Method, url: &str, body: &Value) -> Result<Answer, String> {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder().method(method).uri(url).header("content-type", "application/json");
        let request = request.body(Full::new(bytes)).unwrap();
        let asked = async {
            let (head, body) =
                self.0.request(request).await.map_err(|error| format!("{url}: {error:?}"))?.into_parts();
            let body = body.collect().await.map_err(|error| format!("{url}: {error:?}"))?;
            Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        tokio::time::timeout(HANGS_AFTER, asked).await.unwrap_or_else(|_| Err(format!("{url} hangs")))
    }

    /// Status and JSON of an answer that must come.
    pub(crate) async fn json(&self, method: Method, url: &str, body: &Value) -> (u16, Value) {
        let answer = self.ask(method, url, body).await.unwrap();
        (answer.status.as_u16(), answer.json())
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// Returns once it holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let held = async {
        while !holds().await {
            tokio::time::sleep(LOOKED_EVERY).await;
        }
    };
    assert!(tokio::time::timeout(HANGS_AFTER, held).await.is_ok(), "never: {what}");
}
