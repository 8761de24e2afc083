//! A response that keeps the place of its request among those that are served at once.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// A body that gives its place back when it is dropped: read to its end, or left by its client.
#[derive(Debug)]
pub(crate) struct PlacedBody<B> {
    body: B,
    _place: OwnedSemaphorePermit,
}

// === impl PlacedBody ===

impl<B> PlacedBody<B> {
    pub(crate) const fn new(body: B, place: OwnedSemaphorePermit) -> Self {
        Self { body, _place: place }
    }
}

impl<B: Body + Unpin> Body for PlacedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
