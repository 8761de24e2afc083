//! A small HTTP client: what the demo asks of the router and of its engines.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kvroute_openai::Endpoint;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::sse::AnswerReader;

/// Keeps connections open between requests. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
}

/// A streamed answer that came to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// From sending the request to the first text; absent if the answer had none.
    pub(crate) first_token: Option<Duration>,
}

// === impl Client ===

impl Client {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { http: legacy::Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// Sends a request for a stream and reads it to the end.
    pub(crate) async fn stream(&self, base: &str, endpoint: Endpoint, body: Bytes) -> Result<Answer, String> {
        let sent_at = Instant::now();
        let response = self.send(Method::POST, &format!("{base}{}", endpoint.path()), body).await?;
        let status = response.status();
        let mut body = response.into_body();
        if status != StatusCode::OK {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&collect(body).await?)));
        }
        let mut reader = AnswerReader::default();
        let mut first_token = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| format!("the stream broke: {error}"))?;
            reader.push(frame.data_ref().map_or(&[], |data| &data[..]))?;
            if first_token.is_none() && reader.has_text() {
                first_token = Some(sent_at.elapsed());
            }
        }
        Ok(Answer { text: reader.finish()?, first_token })
    }

    /// The body of a `GET` that succeeds.
    pub(crate) async fn get(&self, url: &str) -> Result<Bytes, String> {
        let response = self.send(Method::GET, url, Bytes::new()).await?;
        let status = response.status();
        let body = collect(response.into_body()).await?;
        if status == StatusCode::OK { Ok(body) } else { Err(format!("{url}: {status}")) }
    }

    /// The same, read as JSON.
    pub(crate) async fn get_json<T: DeserializeOwned>(&self, url: &str) -> Result<T, String> {
        serde_json::from_slice(&self.get(url).await?).map_err(|error| format!("{url}: {error}"))
    }

    async fn send(&self, method: Method, url: &str, body: Bytes) -> Result<http::Response<Incoming>, String> {
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| format!("{url}: {error}"))?;
        self.http.request(request).await.map_err(|error| format!("{url}: {error}"))
    }
}

async fn collect(body: Incoming) -> Result<Bytes, String> {
    let collected = body.collect().await.map_err(|error| format!("the response broke: {error}"))?;
    Ok(collected.to_bytes())
}
