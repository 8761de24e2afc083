//! Requests that are answered before they were read to their end, such as one that is too large.
//!
//! A client that writes does not read, and a socket that is closed with unread bytes takes the answer with it that the client
//! has not read yet. So what such a client still sends is read and dropped for a while before its connection is closed.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PARTING;
use super::client::Peer;

/// So much is read by hyper itself, which then goes on with the connection.
const SMALL: u64 = 8 << 10;

/// However much a client sends.
const LONGEST: Duration = Duration::from_secs(10);

/// Read at once.
const PIECE: usize = 16 << 10;

/// Whether the last request of a connection was not read to its end.
#[derive(Debug, Default)]
pub(super) struct Unread(AtomicBool);

/// A request's body that tells its connection when it is not read to its end.
#[derive(Debug)]
pub(super) struct RequestBody {
    body: Incoming,
    has_ended: bool,
    peer: Arc<Peer>,
}

// === impl Unread ===

impl Unread {
    /// Whether it was not: then its connection takes no other one.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Reads what a client still sends, if its request was not read to its end.
    pub(super) async fn drop_rest(&self, socket: &TcpStream) {
        if self.is_set() {
            let _all_read = timeout(LONGEST, read_on(socket)).await;
        }
    }
}

async fn read_on(socket: &TcpStream) {
    let mut unread = vec![0; PIECE];
    while let Ok(Ok(())) = timeout(PARTING, socket.readable()).await {
        match socket.try_read(&mut unread) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            Ok(_) | Err(_) => {}
        }
    }
}

// === impl RequestBody ===

impl RequestBody {
    pub(super) fn new(body: Incoming, peer: Arc<Peer>) -> Self {
        peer.unread.0.store(false, Ordering::Relaxed);
        Self { body, has_ended: false, peer }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let is_small = self.body.size_hint().upper().is_some_and(|left| left <= SMALL);
        if !self.has_ended && !is_small {
            self.peer.unread.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.has_ended |= !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
