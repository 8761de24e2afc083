//! A client for the tests.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kvroute_sim::{EngineStats, SimConfig, SimEngine};
use serde_json::{Value, json};

use crate::encoder::encoder;

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const COMPLETIONS: &str = "/v1/completions";

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    /// The `data:` lines of a stream.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = std::str::from_utf8(&self.body).unwrap();
        text.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap().to_owned()).collect()
    }
}

pub(crate) async fn start(config: SimConfig) -> SimEngine {
    SimEngine::start(config, encoder()).await.unwrap()
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Sends a request and returns as soon as the head is there.
pub(crate) async fn send(
    engine: &SimEngine,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
    let mut request = Request::builder().method(method).uri(format!("{}{path}", engine.url()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client().request(request.body(Full::new(body.into())).unwrap()).await
}

pub(crate) async fn finish(response: Response<Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let content_type = head.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned());
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: head.status, content_type, body }
}

pub(crate) async fn get(engine: &SimEngine, path: &str) -> Answer {
    finish(send(engine, Method::GET, path, &[], "").await.unwrap()).await
}

/// Sends JSON and returns as soon as the head is there.
pub(crate) async fn open(engine: &SimEngine, path: &str, body: &Value) -> Response<Incoming> {
    let json = [("content-type", "application/json")];
    send(engine, Method::POST, path, &json, body.to_string()).await.unwrap()
}

pub(crate) async fn post(engine: &SimEngine, path: &str, body: &Value) -> Answer {
    finish(open(engine, path, body).await).await
}

/// Completes a prompt of token ids.
pub(crate) async fn complete(engine: &SimEngine, prompt: &[u32], max_tokens: u64) -> Value {
    let answer = post(engine, COMPLETIONS, &json!({ "prompt": prompt, "max_tokens": max_tokens })).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json()
}

pub(crate) fn cached_tokens(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

/// Waits until the statistics satisfy a condition; fails the test when they never do.
pub(crate) async fn until_stats(engine: &SimEngine, what: &str, condition: impl Fn(&EngineStats) -> bool) {
    for _ in 0..2000 {
        if condition(&engine.stats()) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{what} never came true: {:?}", engine.stats());
}
