//! The HTTP client towards the collector.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::http_client::with_causes;

/// A collector that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest answer that is read; its words are of no use anyway.
const LARGEST_ANSWER: usize = 1 << 20;

/// Sends one request at a time.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    http: Client<HttpConnector, Full<Bytes>>,
    /// Why the last request got no answer: the exporter keeps that to itself.
    trouble: Arc<Mutex<Option<String>>>,
}

// === impl Collector ===

impl Collector {
    pub(super) fn new() -> Self {
        let http = Client::builder(TokioExecutor::new()).build(HttpConnector::new());
        Self { http, trouble: Arc::default() }
    }

    /// Why the last request got no answer, if it got none.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().take()
    }

    async fn ask(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = self.http.request(request.map(Full::new)).await?.into_parts();
        let body = Limited::new(body, LARGEST_ANSWER).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answered = match timeout(PATIENCE, self.ask(request)).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(format!("no answer within {PATIENCE:?}").into()),
        };
        *self.trouble.lock() = answered.as_ref().err().map(|error| with_causes(error.as_ref()));
        answered
    }
}
