//! One connection of HTTP/2, which many requests share and which therefore has a task of its own.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioExecutor;
use kvroute_engine::WorkerStream;
use kvroute_openai::UpstreamBody;

/// Sends requests over a connection that lives as long as anybody holds one of these, or reads an answer.
#[derive(Clone, Debug)]
pub(super) struct SharedLine {
    requests: SendRequest<Full<UpstreamBody>>,
    has_answered: Arc<AtomicBool>,
}

// === impl SharedLine ===

impl SharedLine {
    /// A line that has served nobody yet, and what has to run for it to do anything.
    pub(super) async fn open(
        stream: WorkerStream,
    ) -> hyper::Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let (requests, connection) = handshake(TokioExecutor::new(), stream).await?;
        let run = async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a worker's connection of HTTP/2 ended early");
            }
        };
        Ok((Self { requests, has_answered: Arc::default() }, run))
    }

    /// Whether it has brought the head of an answer to anybody.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Whether it takes requests no more.
    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Sends a request and returns the head of its answer.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<UpstreamBody>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<UpstreamBody>>>> {
        let answer = self.requests.try_send_request(request).await?;
        self.has_answered.store(true, Ordering::Relaxed);
        Ok(answer)
    }
}
