//! One connection of HTTP/1, without a task of its own.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use kvroute_engine::WorkerStream;
use kvroute_openai::UpstreamBody;

use super::Target;

/// A connection that does something only while it is driven.
#[derive(Debug)]
pub(super) struct Line {
    target: Target,
    requests: SendRequest<Full<UpstreamBody>>,
    /// `None` once it has ended.
    connection: Option<Connection<WorkerStream, Full<UpstreamBody>>>,
    has_answered: bool,
}

// === impl Line ===

impl Line {
    /// A line that has served nobody yet.
    pub(super) async fn open(target: Target, stream: WorkerStream) -> hyper::Result<Box<Self>> {
        let (requests, connection) = handshake(stream).await?;
        Ok(Box::new(Self { target, requests, connection: Some(connection), has_answered: false }))
    }

    /// Where it leads.
    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// Whether it has brought the head of an answer.
    pub(super) const fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Sends a request and returns the head of its answer.
    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<UpstreamBody>>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Full<UpstreamBody>>>> {
        let mut answer = pin!(self.requests.try_send_request(request));
        let answer = std::future::poll_fn(|context| {
            drive(&mut self.connection, context);
            answer.as_mut().poll(context)
        });
        let answer = answer.await?;
        self.has_answered = true;
        Ok(answer)
    }

    /// Reads and writes what can be without waiting; whoever is woken by it has to drive it again.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        drive(&mut self.connection, context);
    }

    /// Whether it can take a request: its last answer has been read to its end, and its worker has not closed it.
    pub(super) fn is_free(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && self.requests.is_ready()
    }
}

/// How it ended is told by the answer or its body.
fn drive(connection: &mut Option<Connection<WorkerStream, Full<UpstreamBody>>>, context: &mut Context<'_>) {
    if let Some(running) = connection
        && Pin::new(running).poll(context).is_ready()
    {
        *connection = None;
    }
}
