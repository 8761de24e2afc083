//! Small calls to a worker beside the inference path: bounded in time and in bytes.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::connector::Connector;
use crate::shortage::is_shortage;
use crate::tls::UpstreamTls;

/// The client that calls workers; its owner decides on connect timeout and pooling.
pub type HttpClient = Client<Connector, Full<Bytes>>;

/// A worker that does not answer such a call within this time is taken as not answering.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer that is read: ids of a million tokens take 8 MB.
const LONGEST_ANSWER: usize = 32 << 20;

/// What a call may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Time until the answer is complete.
    pub(crate) patience: Duration,
    /// Bytes of its body.
    pub(crate) longest: usize,
}

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
    #[error("{url} is not a usable address ({reason}): write http://HOST:PORT or https://HOST:PORT")]
    BadAddress {
        /// As configured, with the path.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Refused, unreachable, unknown host, or broken off.
    #[error("{0}")]
    Broken(String),
    /// This process ran out of something, such as files.
    #[error("the router itself is out of resources: {0}")]
    Shortage(String),
    /// Connected or not, nothing came in time.
    #[error("no answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// The answer does not end.
    #[error("the answer is longer than {} MiB", .0 >> 20)]
    TooLong(usize),
}

/// A client for calls beside the inference path, which are rare: it keeps hardly any connection.
pub(crate) fn small_client(tls: &UpstreamTls) -> HttpClient {
    Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(Connector::new(PATIENCE, tls))
}

// === impl Limits ===

impl Limits {
    /// For what is asked rarely.
    const USUAL: Self = Self { patience: PATIENCE, longest: LONGEST_ANSWER };
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
    get_within(client, base, path, Limits::USUAL).await
}

/// Asks a worker for a path, at a cost of one's own.
pub(crate) async fn get_within(
    client: &HttpClient,
    base: &str,
    path: &str,
    limits: Limits,
) -> Result<Answer, CallError> {
    let request = request(Method::GET, base, path, Bytes::new())?;
    exchange_within(client, request, limits).await
}

/// Sends JSON to a path of a worker.
pub(crate) async fn post(
    client: &HttpClient,
    base: &str,
    path: &str,
    body: Vec<u8>,
) -> Result<Answer, CallError> {
    let request = request(Method::POST, base, path, body.into())?;
    exchange_within(client, request, Limits::USUAL).await
}

fn request(method: Method, base: &str, path: &str, body: Bytes) -> Result<Request<Full<Bytes>>, CallError> {
    let url = format!("{}{path}", base.trim_end_matches('/'));
    let bad_address =
        |error: http::Error| CallError::BadAddress { url: url.clone(), reason: error.to_string() };
    Request::builder()
        .method(method)
        .uri(&url)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(bad_address)
}

async fn exchange_within(
    client: &HttpClient,
    request: Request<Full<Bytes>>,
    limits: Limits,
) -> Result<Answer, CallError> {
    match tokio::time::timeout(limits.patience, exchange(client, request, limits.longest)).await {
        Ok(answer) => answer,
        Err(_) => Err(CallError::TimedOut(limits.patience)),
    }
}

async fn exchange(
    client: &HttpClient,
    request: Request<Full<Bytes>>,
    longest: usize,
) -> Result<Answer, CallError> {
    let response = client.request(request).await.map_err(|error| match is_shortage(&error) {
        true => CallError::Shortage(causes(&error)),
        false => CallError::Broken(causes(&error)),
    })?;
    let status = response.status();
    let body =
        Limited::new(response.into_body(), longest).collect().await.map_err(|error| match error
            .downcast_ref::<LengthLimitError>(
        ) {
            Some(_) => CallError::TooLong(longest),
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
