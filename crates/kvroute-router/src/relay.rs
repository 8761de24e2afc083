//! The response on its way to the client.
//!
//! A relay is a body and not a task: hyper polls it as fast as the client reads, which is the back-pressure, and
//! drops it when the client is gone, which closes the upstream connection and with it the engine's work. Only
//! what must happen although nobody polls (the total limit, the end of the router) is a task beside it.

mod elsewhere;
mod flow;
mod idle;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use kvroute_openai::StreamScanner;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::flow::Flow;
use crate::attempt::Attempt;
use crate::dispatch::Streamed;
use crate::migration::Migration;
use crate::route::Route;

/// What the client reads.
#[derive(Debug)]
pub struct RelayBody(Source);

#[derive(Debug)]
enum Source {
    Whole(Option<Bytes>),
    Stream(StreamRelay),
}

/// A stream that passes through.
#[derive(Debug)]
pub(crate) struct StreamRelay {
    flow: Arc<Mutex<Flow>>,
    _guard: AbortOnDropHandle<()>,
}

/// Where the guards of streams run, and what ends all streams.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub(crate) tasks: TaskTracker,
    pub(crate) cut: CancellationToken,
}

// === impl RelayBody ===

impl RelayBody {
    /// A body that is known to its end.
    pub fn whole(bytes: Bytes) -> Self {
        Self(Source::Whole(Some(bytes)))
    }

    /// A stream of events.
    pub(crate) fn stream(relay: StreamRelay) -> Self {
        Self(Source::Stream(relay))
    }
}

impl Body for RelayBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut self.0 {
            Source::Whole(bytes) => Poll::Ready(bytes.take()),
            Source::Stream(relay) => relay.flow.lock().poll_piece(context),
        };
        piece.map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Whole(bytes) => bytes.is_none(),
            Source::Stream(relay) => relay.flow.lock().is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Source::Stream(_) => SizeHint::default(),
        }
    }
}

// === impl StreamRelay ===

impl StreamRelay {
    /// Relays `upstream` through `scanner` until `deadline`, or until all streams are cut. If it breaks, another worker may
    /// go on with it.
    pub(crate) fn new(
        upstream: Streamed,
        scanner: StreamScanner,
        route: &Arc<Route>,
        attempt: Attempt,
        deadline: Instant,
    ) -> Self {
        let streams = attempt.pool().streams().clone();
        let migration = Migration::of(route, &attempt);
        let (endpoint, trail) = (route.request.endpoint, route.trail.clone());
        let flow = Flow::new(upstream, scanner, endpoint, attempt, deadline, trail);
        let flow = flow.explaining(route.explains).migrating(migration);
        let flow = Arc::new(Mutex::new(flow));
        let guarded = guard(Arc::clone(&flow), streams.cut);
        Self { flow, _guard: AbortOnDropHandle::new(streams.tasks.spawn(guarded)) }
    }
}

/// A stream that the client does not read is not polled, so its end has to come from outside.
async fn guard(flow: Arc<Mutex<Flow>>, cut: CancellationToken) {
    loop {
        let deadline = flow.lock().deadline();
        tokio::select! {
            () = sleep_until(deadline) => if flow.lock().exceed_total() { return },
            () = cut.cancelled() => return flow.lock().cut(),
        }
    }
}
