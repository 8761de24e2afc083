//! A small HTTP client: what commands ask of a router and the demo of its engines.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kvroute_engine::{Connector, UpstreamTls};

/// Time in which a connection has to stand.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

/// Keeps connections open between requests. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient {
    http: kvroute_engine::HttpClient,
    /// What every request says of who sends it.
    authorization: Option<HeaderValue>,
}

// === impl HttpClient ===

impl HttpClient {
    pub(crate) fn new() -> Self {
        Self::of(&UpstreamTls::default(), None)
    }

    /// A client that verifies `https` addresses as `tls` says, and shows a header with every request.
    pub(crate) fn of(tls: &UpstreamTls, authorization: Option<HeaderValue>) -> Self {
        let connector = Connector::new(CONNECT_PATIENCE, tls);
        Self { http: legacy::Client::builder(TokioExecutor::new()).build(connector), authorization }
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
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| format!("{url}: {error}"))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
        }
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
