//! The bound side: accepts peers, and leaves their handshakes to whoever takes them.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::connection::Connection;
use crate::socket_type::SocketType;
use crate::{Endpoint, Subscriber, ZmtpError};

/// Pause after a failed accept: the causes (no file descriptors left) do not pass at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound TCP address.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    local_addr: SocketAddr,
}

/// A peer that connected and has not greeted yet. A handshake may hang, so it is not the listener's business.
#[derive(Debug)]
pub struct Incoming {
    stream: TcpStream,
    peer_addr: SocketAddr,
}

// === impl Listener ===

impl Listener {
    /// Binds an address; fails when it is in use.
    pub async fn bind(endpoint: &Endpoint) -> Result<Self, ZmtpError> {
        let failed = |source| ZmtpError::Bind { endpoint: endpoint.clone(), source };
        let listener = TcpListener::bind(endpoint.lookup()).await.map_err(failed)?;
        let local_addr = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, local_addr })
    }

    /// The real address, with the port that the system chose.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The next peer; cancel-safe. A failing accept is tried again for ever.
    pub async fn accept(&self) -> Incoming {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer_addr)) => return Incoming { stream, peer_addr },
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

// === impl Incoming ===

impl Incoming {
    /// Where the peer connects from.
    pub const fn peer_addr(&self) -> SocketAddr {
        self.peer_addr
    }

    /// Greets a publisher that connected to us and subscribes to a topic prefix.
    pub async fn subscribe(self, topic: &[u8]) -> Result<Subscriber, ZmtpError> {
        let connection = Connection::greet(self.stream, SocketType::Subscriber).await?;
        Subscriber::start(connection, topic).await
    }

    pub(crate) async fn greet(self, own: SocketType) -> Result<Connection, ZmtpError> {
        Connection::greet(self.stream, own).await
    }
}
