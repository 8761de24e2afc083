//! One connection of a client, and the one to the server that belongs to it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::spoiler::{Spoiler, Step};
use super::{Fault, Shared};

/// A client's connection; counted as open as long as it lives.
#[derive(Debug)]
pub(super) struct Connection {
    client: TcpStream,
    shared: Arc<Shared>,
}

/// What the two directions tell each other.
#[derive(Debug)]
struct Exchange {
    shared: Arc<Shared>,
    answer: Mutex<Answer>,
}

#[derive(Debug)]
struct Answer {
    spoiler: Spoiler,
    /// Whether the next bytes of the client begin a request.
    has_begun: bool,
    is_probe: bool,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    InOrder,
    Reset,
}

const CHUNK: usize = 64 << 10;

// === impl Connection ===

impl Connection {
    pub(super) fn new(client: TcpStream, shared: Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::Relaxed);
        Self { client, shared }
    }

    /// Until one of the two ends it, or a fault does.
    pub(super) async fn run(mut self) {
        let Ok(upstream) = TcpStream::connect(self.shared.upstream).await else { return };
        // What was sent is to arrive before whatever is done next.
        let _ = (self.client.set_nodelay(true), upstream.set_nodelay(true));
        let end = self.exchange(upstream).await;
        if end == End::Reset {
            let _ = self.client.set_zero_linger();
        }
    }

    async fn exchange(&mut self, upstream: TcpStream) -> End {
        let spoiler = Spoiler::new(Fault::None);
        let answer = Mutex::new(Answer { spoiler, has_begun: true, is_probe: true });
        let exchange = Exchange { shared: Arc::clone(&self.shared), answer };
        let (mut from_server, mut to_server) = upstream.into_split();
        let (mut from_client, mut to_client) = self.client.split();
        tokio::select! {
            _gone = exchange.requests(&mut from_client, &mut to_server) => End::InOrder,
            end = exchange.answers(&mut from_server, &mut to_client) => end.unwrap_or(End::InOrder),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Exchange ===

impl Exchange {
    /// Passes on what the client sends, until it ends the connection.
    async fn requests(
        &self,
        client: &mut (impl AsyncReadExt + Unpin),
        server: &mut OwnedWriteHalf,
    ) -> io::Result<()> {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        while client.read_buf(&mut buffer).await? > 0 {
            if self.answer.lock().is_refused(&buffer, &self.shared) {
                return Ok(());
            }
            server.write_all_buf(&mut buffer).await?;
        }
        Ok(())
    }

    /// Passes on what the server sends, or what a fault makes of it.
    async fn answers(
        &self,
        server: &mut OwnedReadHalf,
        client: &mut (impl AsyncWriteExt + Unpin),
    ) -> io::Result<End> {
        let mut buffer = BytesMut::with_capacity(CHUNK);
        while server.read_buf(&mut buffer).await? > 0 {
            let steps = self.answer.lock().steps(buffer.split().freeze(), &self.shared);
            for step in steps {
                if let Some(end) = self.take(step, client).await? {
                    return Ok(end);
                }
            }
        }
        Ok(End::InOrder)
    }

    /// Does one step; tells how the connection ends if this was the last one.
    async fn take(&self, step: Step, client: &mut (impl AsyncWriteExt + Unpin)) -> io::Result<Option<End>> {
        match step {
            Step::Send(mut bytes) => client.write_all_buf(&mut bytes).await?,
            Step::Pause(Duration::ZERO) => tokio::task::yield_now().await,
            Step::Pause(pause) => tokio::time::sleep(pause).await,
            Step::Hold => self.shared.released().await,
            Step::Reset => return Ok(Some(End::Reset)),
            Step::Close => return Ok(Some(End::InOrder)),
            Step::Silence { half_closed } => {
                if half_closed {
                    client.shutdown().await?;
                }
                // The other direction ends it, once the client has gone.
                std::future::pending::<()>().await;
            }
        }
        Ok(None)
    }
}

// === impl Answer ===

impl Answer {
    /// Bytes of the client: the first ones behind an answer begin a request, which may come at a time when nobody listens
    /// any more.
    fn is_refused(&mut self, bytes: &[u8], shared: &Shared) -> bool {
        if std::mem::replace(&mut self.has_begun, false) {
            let (fault, is_probe) = shared.begin(bytes);
            (self.spoiler, self.is_probe) = (Spoiler::new(fault), is_probe);
            return fault == Fault::Refuse;
        }
        false
    }

    /// Bytes of the server.
    fn steps(&mut self, bytes: Bytes, shared: &Shared) -> Vec<Step> {
        self.has_begun = true;
        if !self.is_probe {
            shared.length.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        let had_happened = self.spoiler.has_happened();
        let steps = self.spoiler.steps(bytes);
        if self.spoiler.has_happened() && !had_happened {
            shared.suffered.fetch_add(1, Ordering::Relaxed);
        }
        steps
    }
}
