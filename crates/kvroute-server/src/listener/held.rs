//! A response whose request counts as running until its last byte was handed over.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio_util::task::task_tracker::TaskTrackerToken;

/// A body that keeps its request among the running ones until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody {
    body: Body,
    _running: TaskTrackerToken,
}

// === impl HeldBody ===

impl HeldBody {
    pub(super) const fn new(body: Body, running: TaskTrackerToken) -> Self {
        Self { body, _running: running }
    }
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
