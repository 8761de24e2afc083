//! One connection of HTTP/2, which may end by a `GOAWAY` of its own making.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use h2::server::Builder;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;

use super::exchange::Exchange;
use super::{Http2Fault, Shared};

/// A connection's bytes, which are still there when the library that speaks HTTP/2 on them is not.
#[derive(Clone, Debug)]
struct Wire(Arc<Mutex<TlsStream<TcpStream>>>);

/// Serves a connection until its client leaves, it was retired, or a fault ends it.
pub(super) async fn serve(stream: TlsStream<TcpStream>, number: usize, shared: &Arc<Shared>) {
    let mut wire = Wire(Arc::new(Mutex::new(stream)));
    let handshake = Builder::new().max_concurrent_streams(shared.streams).handshake(wire.clone());
    let Ok(mut http2) = handshake.await else { return };
    let (mut exchanges, mut retired) = (JoinSet::new(), shared.retired.subscribe());
    loop {
        tokio::select! {
            accepted = http2.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                let fault = shared.begin(&request, number);
                if fault == Some(Http2Fault::GoAway) {
                    drop(http2);
                    let _ = wire.go_away(u32::from(respond.stream_id()).saturating_sub(2)).await;
                    return;
                }
                exchanges.spawn(Exchange::new(fault, shared).run(request, respond));
            }
            _ = retired.changed() => http2.graceful_shutdown(),
            Some(_ended) = exchanges.join_next() => {}
        }
    }
}

// === impl Wire ===

impl Wire {
    /// Says that nothing behind the stream `last` was looked at, which the library says of no stream that it has read, and
    /// waits for the client to leave.
    async fn go_away(&mut self, last: u32) -> io::Result<()> {
        let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
        frame.extend(last.to_be_bytes());
        frame.extend(0_u32.to_be_bytes());
        self.write_all(&frame).await?;
        self.shutdown().await?;
        let mut rest = [0; 1024];
        while self.read(&mut rest).await? > 0 {}
        Ok(())
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_read(context, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_shutdown(context)
    }
}
