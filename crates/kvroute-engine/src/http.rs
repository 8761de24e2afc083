//! Small calls to a worker beside the inference path: bounded in time and in bytes.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// The client that calls workers; its owner decides on connect timeout and pooling.
pub type HttpClient = Client<HttpConnector, Full<Bytes>>;

/// A worker that does not answer such a call within this time is taken as not answering.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is read: ids of a million tokens take 8 MB.
const MAX_ANSWER: usize = 32 << 20;

/// What a worker answered, whatever the status.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// A call that brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The address is no URL of this kind.
    #[error("{url} is not a usable address ({reason}): write http://HOST:PORT")]
    BadAddress {
        /// As configured, with the path.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Refused, unreachable, unknown host, or broken off.
    #[error("{0}")]
    Broken(String),
    /// Connected or not, nothing came in time.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The answer does not end.
    #[error("the answer is longer than {} MiB", MAX_ANSWER >> 20)]
    TooLong,
}

/// A client for calls beside the inference path, which are rare: it keeps hardly any connection.
pub(crate) fn small_client() -> HttpClient {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(PATIENCE));
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(connector)
}

// === impl Answer ===

impl Answer {
    /// The body as text where the status is 200.
    pub(crate) fn text(&self) -> Option<&str> {
        (self.status == StatusCode::OK).then(|| std::str::from_utf8(&self.body).ok()).flatten()
    }

    /// The body read as JSON where the status is 200 and the shape fits.
    pub(crate) fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.text()?).ok()
    }
}

/// Asks a worker for a path.
pub(crate) async fn get(client: &HttpClient, base: &str, path: &str) -> Result<Answer, CallError> {
    call(client, Method::GET, base, path, Bytes::new()).await
}

/// Sends JSON to a path of a worker.
pub(crate) async fn post(
    client: &HttpClient,
    base: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Answer, CallError> {
    call(client, Method::POST, base, path, body.into()).await
}

async fn call(
    client: &HttpClient,
    method: Method,
    base: &str,
    path: &str,
    body: Bytes,
) -> Result<Answer, CallError> {
    let url = format!("{}{path}", base.trim_end_matches('/'));
    let bad_address =
        |error: http::Error| CallError::BadAddress { url: url.clone(), reason: error.to_string() };
    let request = Request::builder()
        .method(method)
        .uri(&url)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(bad_address)?;
    match tokio::time::timeout(PATIENCE, exchange(client, request)).await {
        Ok(answer) => answer,
        Err(_) => Err(CallError::TimedOut(PATIENCE)),
    }
}

async fn exchange(client: &HttpClient, request: Request<Full<Bytes>>) -> Result<Answer, CallError> {
    let response = client.request(request).await.map_err(|error| CallError::Broken(causes(&error)))?;
    let status = response.status();
    let body =
        Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| match error
            .downcast_ref::<LengthLimitError>(
        ) {
            Some(_) => CallError::TooLong,
            None => CallError::Broken(causes(error.as_ref())),
        })?;
    Ok(Answer { status, body: body.to_bytes() })
}

/// The innermost causes say what happened; the outer ones only where.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
