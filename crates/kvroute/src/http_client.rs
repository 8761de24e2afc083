//! A small HTTP client: what commands ask of a router and the demo of its engines.

use std::error::Error;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Keeps connections open between requests. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    http: legacy::Client<HttpConnector, Full<Bytes>>,
}

// === impl HttpClient ===

impl HttpClient {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { http: legacy::Client::builder(TokioExecutor::new()).build(connector) }
    }

    /// The client below, for the calls that engine adapters make.
    pub(crate) const fn for_engines(&self) -> &kvroute_engine::HttpClient {
        &self.http
    }

    /// Sends a request and reads its answer to the end, whatever its status.
    pub(crate) async fn ask(
        &self,
        method: Method,
        url: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let (head, body) = self.send(method, url, body).await?.into_parts();
        Ok((head.status, collect(body).await?))
    }

    /// Sends a request; its answer is still to be read.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, String> {
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| format!("{url}: {error}"))?;
        self.http.request(request).await.map_err(|error| format!("{url}: {}", with_causes(&error)))
    }
}

/// A body to its end.
pub(crate) async fn collect(body: Incoming) -> Result<Bytes, String> {
    let collected = body.collect().await.map_err(|error| format!("the response broke: {error}"))?;
    Ok(collected.to_bytes())
}

/// The client's errors name only the step that failed; the reason is among their causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
