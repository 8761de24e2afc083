//! Clients for whom there is no room: told so, and not kept waiting.
//!
//! A connection that waits to be accepted looks to a client like a router that hangs; one that is refused can be sent to
//! another router.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Clients that are told at once; what comes beyond them is closed without a word.
const TOLD_AT_ONCE: usize = 64;

/// Time for a client to read it. Closed earlier, with its request unread, the answer would be lost.
const PATIENCE: Duration = Duration::from_secs(1);

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/json\r\n\
    retry-after: 1\r\ncontent-length: 176\r\n\r\n\
    {\"error\":{\"message\":\"as many connections are served as server.limits.connections allows; come again later\",\
    \"type\":\"service_unavailable_error\",\"param\":null,\"code\":\"overloaded\"}}";

/// Whoever is being turned away.
#[derive(Debug, Default)]
pub(super) struct TurnedAway {
    told: JoinSet<()>,
    is_full: bool,
}

// === impl TurnedAway ===

impl TurnedAway {
    /// Refuses a client, in words where it has not to be spoken to by TLS.
    pub(super) fn add(&mut self, socket: TcpStream, speaks_plainly: bool, connections: usize) {
        while self.told.try_join_next().is_some() {}
        if !std::mem::replace(&mut self.is_full, true) {
            tracing::warn!(
                connections,
                "as many connections as server.limits.connections allows: clients are turned away"
            );
        }
        if speaks_plainly && self.told.len() < TOLD_AT_ONCE {
            self.told.spawn(tell(socket));
        }
    }

    /// There is room again.
    pub(super) fn over(&mut self) {
        self.is_full = false;
    }
}

async fn tell(mut socket: TcpStream) {
    let told = async {
        let mut unread = [0; 1024];
        // An answer that is there before the request was sent is none to most clients.
        if socket.read(&mut unread).await? == 0 {
            return Ok(());
        }
        socket.write_all(ANSWER).await?;
        socket.shutdown().await?;
        while socket.read(&mut unread).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _whatever_it_read = timeout(PATIENCE, told).await;
}
