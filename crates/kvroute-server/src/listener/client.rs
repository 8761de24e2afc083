//! A client's socket, whose other end can be watched beside the HTTP connection that reads and writes it.
//!
//! hyper notices that a client has left by reading. It does not read on while bytes behind the request are still
//! in its buffer, so a client that left is then never noticed. The operating system tells the same without a read.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Pause between two looks at a socket whose unread bytes keep it ready.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The socket as hyper uses it.
#[derive(Debug)]
pub(super) struct ClientStream {
    read: OwnedReadHalf,
    peer: Arc<Peer>,
}

/// The other end of a socket that something else reads and writes.
#[derive(Debug)]
pub(super) struct Peer {
    socket: OwnedWriteHalf,
    write_blocked: AtomicBool,
}

// === impl ClientStream ===

impl ClientStream {
    pub(super) fn new(socket: TcpStream) -> Self {
        let (read, write) = socket.into_split();
        Self { read, peer: Arc::new(Peer { socket: write, write_blocked: AtomicBool::new(false) }) }
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
        Pin::new(&mut self.read).poll_read(context, buffer)
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

    /// Whether the last write could not be done, because the client does not read.
    pub(super) fn is_write_blocked(&self) -> bool {
        self.write_blocked.load(Ordering::Relaxed)
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
        self.write_blocked.store(written.is_pending(), Ordering::Relaxed);
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
