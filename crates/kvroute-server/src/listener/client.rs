//! A client's socket, whose other end can be watched beside the HTTP connection that reads and writes it.
//!
//! hyper notices that a client has left by reading. It does not read on while bytes behind the request are still
//! in its buffer, so a client that left is then never noticed. The operating system tells the same without a read.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::pace::Pace;
use super::unread::Unread;

/// What a client sends first that speaks HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Pause between two looks at a socket whose unread bytes keep it ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The socket as hyper uses it.
#[derive(Debug)]
pub(super) struct ClientStream {
    read: OwnedReadHalf,
    peer: Arc<Peer>,
    opening: Opening,
}

/// The other end of a socket that something else reads and writes.
#[derive(Debug)]
pub(super) struct Peer {
    socket: OwnedWriteHalf,
    pub(super) pace: Pace,
    pub(super) unread: Unread,
}

/// What was read to learn which protocol a client speaks, and is to be read once more.
#[derive(Debug, Default)]
struct Opening {
    bytes: [u8; PREFACE.len()],
    given: usize,
    length: usize,
}

// === impl ClientStream ===

impl ClientStream {
    pub(super) fn new(socket: TcpStream) -> Self {
        let (read, write) = socket.into_split();
        let peer = Arc::new(Peer { socket: write, pace: Pace::start(), unread: Unread::default() });
        Self { read, peer, opening: Opening::default() }
    }

    /// Whether a client without TLS speaks HTTP/2 from its first byte. Reads no more than it takes to tell.
    pub(super) async fn speaks_http2(&mut self) -> io::Result<bool> {
        let mut opening = Opening::default();
        while opening.is_preface_so_far() && opening.length < PREFACE.len() {
            let read = self.read.read(&mut opening.bytes[opening.length..]).await?;
            opening.length += read;
            if read == 0 {
                break;
            }
        }
        let is_whole = opening.is_preface_so_far() && opening.length == PREFACE.len();
        self.opening = opening;
        Ok(is_whole)
    }

    pub(super) fn peer(&self) -> Arc<Peer> {
        Arc::clone(&self.peer)
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.opening.give(buffer) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.read).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.peer.pace.came();
        }
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.peer.poll_write(context, |socket| socket.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.peer.poll_write(context, |socket| socket.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.peer.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(self.peer.stream()).shutdown(Shutdown::Write))
    }
}

// === impl Opening ===

impl Opening {
    fn is_preface_so_far(&self) -> bool {
        PREFACE.starts_with(&self.bytes[..self.length])
    }

    /// Hands out what is left of it; false where nothing is.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let left = &self.bytes[self.given..self.length];
        let part = &left[..left.len().min(buffer.remaining())];
        buffer.put_slice(part);
        self.given += part.len();
        !part.is_empty()
    }
}

// === impl Peer ===

impl Peer {
    /// Returns once the client has closed its side, or the connection broke, and `matters` then. Not to be
    /// distinguished from a client that only said that it will send nothing more.
    pub(super) async fn left(&self, matters: impl Fn() -> bool) {
        loop {
            let has_closed = match self.socket.ready(Interest::READABLE).await {
                Ok(ready) => ready.is_read_closed(),
                Err(error) => {
                    tracing::debug!(%error, "cannot watch a client's connection");
                    true
                }
            };
            if has_closed && matters() {
                return;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// What a client sends in vain is read, so that it gets to read its answer.
    pub(super) async fn drop_unread(&self) {
        self.unread.drop_rest(self.stream()).await;
    }

    fn stream(&self) -> &TcpStream {
        self.socket.as_ref()
    }

    fn poll_write(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&OwnedWriteHalf) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        let written = self.poll_ready_write(context, write);
        self.pace.wrote(written.is_ready());
        written
    }

    fn poll_ready_write(
        &self,
        context: &mut Context<'_>,
        write: impl Fn(&OwnedWriteHalf) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream().poll_write_ready(context))?;
            match write(&self.socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}
