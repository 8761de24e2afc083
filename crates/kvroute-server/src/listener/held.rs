//! A response whose request counts as running until its last byte was handed over.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

use super::client::Peer;
use super::reading::Reading;

/// A body that keeps its request among the running ones until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody {
    body: Body,
    /// What is left of a piece that is too large for a shared connection.
    rest: Bytes,
    /// Whether its client reads, where the connection is shared.
    reading: Option<Arc<Reading>>,
    _running: Running,
}

/// Counts a request among the running ones of its connection until it is dropped.
#[derive(Debug)]
pub(super) struct Running(Arc<Peer>);

/// What is handed to a shared connection at once. It takes a piece whole, and keeps it for as long as the client does not
/// read.
const PIECE: usize = 64 << 10;

// === impl HeldBody ===

impl HeldBody {
    pub(super) fn new(body: Body, running: Running) -> Self {
        Self { body, rest: Bytes::new(), reading: Reading::of_stream(), _running: running }
    }

    /// The next piece for a shared connection.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => return other,
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(reading) = self.reading.clone() else {
            return Pin::new(&mut self.body).poll_frame(context);
        };
        let piece = self.poll_piece(context);
        reading.asked(piece.is_ready());
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut size = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = size.upper() {
            size.set_upper(upper + rest);
        }
        size.set_lower(size.lower() + rest);
        size
    }
}

// === impl Running ===

impl Running {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        peer.pace.begin();
        Self(peer)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.pace.end();
    }
}
