//! A plain HTTP client that shows status, headers and bytes exactly as they came.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Builder};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::Exposition;

/// Nothing in a test takes longer than this unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// No server that is tested closes an idle connection so soon: a request must not meet the end of its connection.
const IDLE: Duration = Duration::from_secs(3);

/// A client with a connection pool of its own.
#[derive(Clone, Debug)]
pub struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, to the end.
    pub body: Bytes,
}

// === impl Client ===

impl Default for Client {
    fn default() -> Self {
        Self { http: Builder::new(TokioExecutor::new()).pool_idle_timeout(IDLE).build_http() }
    }
}

impl Client {
    /// `GET`, read to the end.
    pub async fn get(&self, url: &str) -> Answer {
        self.ask(Method::GET, url, &[], Bytes::new()).await
    }

    /// `GET` with further headers, read to the end.
    pub async fn get_with(&self, url: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask(Method::GET, url, headers, Bytes::new()).await
    }

    /// A request of any method, read to the end.
    pub async fn ask_as(&self, method: &str, url: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let method = method.parse().expect("a test's method is one");
        self.ask(method, url, headers, Bytes::from(body.to_owned())).await
    }

    /// `POST` of JSON, read to the end.
    pub async fn post(&self, url: &str, body: &Value) -> Answer {
        self.post_bytes(url, body.to_string()).await
    }

    /// `POST` of JSON with further headers, read to the end.
    pub async fn post_with(&self, url: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.ask(Method::POST, url, headers, Bytes::from(body.to_string())).await
    }

    /// `POST` of any bytes, read to the end.
    pub async fn post_bytes(&self, url: &str, body: impl Into<Bytes>) -> Answer {
        self.ask(Method::POST, url, &[], body.into()).await
    }

    /// `POST` of JSON; the body is left to the caller, who may read a part of it and drop the rest.
    pub async fn open(&self, url: &str, body: &Value) -> http::Response<Incoming> {
        self.open_with(url, &[], body).await
    }

    /// The same with further headers.
    pub async fn open_with(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> http::Response<Incoming> {
        self.send(Method::POST, url, headers, Bytes::from(body.to_string())).await
    }

    /// Scrapes an admin plane.
    pub async fn scrape(&self, admin: &str) -> Exposition {
        Exposition::parse(&self.get(&format!("{admin}/metrics")).await.text())
    }

    /// Asks again until `holds` is true of the answer's body.
    pub async fn until(&self, url: &str, holds: impl Fn(&Answer) -> bool) -> Answer {
        let mut last = String::new();
        let polled = async {
            loop {
                let answer = self.get(url).await;
                if holds(&answer) {
                    return answer;
                }
                last = answer.text();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(HANGS_AFTER, polled).await;
        waited.unwrap_or_else(|_| panic!("{url} never came to what the test waits for, last it said: {last}"))
    }

    async fn ask(&self, method: Method, url: &str, headers: &[(&str, &str)], body: Bytes) -> Answer {
        let whole = async {
            let (head, body) = self.send(method, url, headers, body).await.into_parts();
            let body = body.collect().await.unwrap_or_else(|error| panic!("{url}: body broke: {error}"));
            Answer { status: head.status, headers: head.headers, body: body.to_bytes() }
        };
        tokio::time::timeout(HANGS_AFTER, whole).await.unwrap_or_else(|_| panic!("{url} hangs"))
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> http::Response<Incoming> {
        let request = Request::builder().method(method).uri(url).header("content-type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Full::new(body)).expect("a test's request is well-formed");
        self.http.request(request).await.unwrap_or_else(|error| panic!("{url}: {error:?}"))
    }
}

// === impl Answer ===

impl Answer {
    /// A header's text; `None` if it is absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header of a test is text"))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {}", self.text()))
    }

    /// The `error` object of an OpenAI-shaped error.
    pub fn error(&self) -> Value {
        self.json()["error"].clone()
    }
}
