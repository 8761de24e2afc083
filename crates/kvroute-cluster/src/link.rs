//! One connection to a server, from its first byte to its end.
//!
//! The client would reconnect by itself and keep what was published meanwhile. Here a connection that ends is given up with
//! everything in it, so that nothing piles up while there is no server, and the next one begins with a clean slate.

use std::time::Duration;
use std::{fmt, io};

use async_nats::{Client, ConnectOptions, Event, ServerError, Subscriber};
use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::message::{HASHES_PER_MESSAGE, Origin};
use crate::server::{Credentials, Server};

/// Where replicas tell all others.
pub(crate) const SUBJECT: &str = "cache-history-v1";

/// Time for a connection to be ready.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that answers no third ping in a row is gone.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Messages that wait inside the client on their way out: it takes no more before the socket does.
const SEND_CAPACITY: usize = 16;

/// Messages of a subject that wait to be read; the client drops those that come beyond.
const RECEIVE_CAPACITY: usize = 256;

/// Complaints of the server that wait to be logged.
const REFUSAL_CAPACITY: usize = 8;

/// Longest greeting of a server.
const LONGEST_GREETING: u64 = 64 << 10;

/// In a message beside its hashes, at most.
const BESIDE_HASHES: usize = 4 << 10;

/// A connection that is ready: what is sent to this replica arrives.
pub(crate) struct Link {
    client: Client,
    /// What is told to all.
    pub(crate) broadcast: Subscriber,
    /// What is told to this replica alone.
    pub(crate) inbox: Subscriber,
    /// What the server said it refuses.
    pub(crate) refusals: mpsc::Receiver<String>,
    ended: CancellationToken,
}

/// Sends over a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkSender {
    client: Client,
    ended: CancellationToken,
}

/// Why there is no connection, or none any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{0}")]
    Unreachable(#[from] io::Error),
    #[error("no answer in time")]
    Slow,
    #[error(
        "the server wants TLS, which this build cannot speak; allow connections without it within the private network"
    )]
    Tls,
    #[error("{0}")]
    Client(String),
    #[error("the connection ended")]
    Ended,
}

/// Where one replica alone is told.
pub(crate) fn inbox_of(origin: Origin) -> String {
    format!("{SUBJECT}.snapshot.{origin}")
}

/// Whether the server's greeting asks for TLS. The client would give up on that in a way that cannot be handled.
async fn wants_tls(server: &Server) -> Result<bool, LinkError> {
    let stream = TcpStream::connect((server.address.host(), server.address.port())).await?;
    let mut reader = BufReader::new(stream.take(LONGEST_GREETING));
    let mut greeting = Vec::new();
    reader.read_until(b'\n', &mut greeting).await?;
    let greeting = String::from_utf8_lossy(&greeting);
    if !greeting.starts_with("INFO ") {
        return Err(LinkError::Client("what answers there is no NATS server".to_owned()));
    }
    Ok(greeting.contains("\"tls_required\":true"))
}

fn options(server: &Server, ended: CancellationToken, complain: mpsc::Sender<String>) -> ConnectOptions {
    let options = match server.credentials.clone() {
        Credentials::None => ConnectOptions::new(),
        Credentials::Token(token) => ConnectOptions::with_token(token),
        Credentials::Password { user, password } => ConnectOptions::with_user_and_password(user, password),
    };
    options
        .name("kvroute")
        .no_echo()
        .max_reconnects(1)
        .ignore_discovered_servers()
        .reconnect_delay_callback(|_| Duration::ZERO)
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .client_capacity(SEND_CAPACITY)
        .subscription_capacity(RECEIVE_CAPACITY)
        .event_callback(move |event| {
            match event {
                Event::Disconnected | Event::Closed => ended.cancel(),
                Event::ServerError(error) if is_refusal(&error) => drop(complain.try_send(error.to_string())),
                _ => {}
            }
            std::future::ready(())
        })
}

/// Other complaints of a server end the connection, which has a warning of its own.
fn is_refusal(error: &ServerError) -> bool {
    error.to_string().to_ascii_lowercase().contains("permissions violation")
}

fn client_error(error: impl fmt::Display) -> LinkError {
    LinkError::Client(error.to_string())
}

// === impl Link ===

impl Link {
    /// Connects and subscribes.
    pub(crate) async fn open(server: &Server, origin: Origin) -> Result<Self, LinkError> {
        timeout(CONNECT_TIMEOUT, Self::connect(server, origin)).await.map_err(|_| LinkError::Slow)?
    }

    async fn connect(server: &Server, origin: Origin) -> Result<Self, LinkError> {
        if wants_tls(server).await? {
            return Err(LinkError::Tls);
        }
        let (ended, (complain, refusals)) = (CancellationToken::new(), mpsc::channel(REFUSAL_CAPACITY));
        let options = options(server, ended.clone(), complain);
        let client = options.connect(server.address.clone()).await.map_err(client_error)?;
        let broadcast = client.subscribe(SUBJECT).await.map_err(client_error)?;
        let inbox = client.subscribe(inbox_of(origin)).await.map_err(client_error)?;
        Ok(Self { client, broadcast, inbox, refusals, ended })
    }

    /// What sends over it.
    pub(crate) fn sender(&self) -> LinkSender {
        LinkSender { client: self.client.clone(), ended: self.ended.clone() }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

// === impl LinkSender ===

impl LinkSender {
    /// Hands a message to the connection; waits while that takes no more.
    pub(crate) async fn publish(&self, subject: impl Into<String>, message: Bytes) -> Result<(), LinkError> {
        self.client.publish(subject.into(), message).await.map_err(client_error)
    }

    /// Waits until everything is on its way.
    pub(crate) async fn flush(&self) -> Result<(), LinkError> {
        self.client.flush().await.map_err(client_error)
    }

    /// Waits for the end of the connection.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Hashes that fit into a message here.
    pub(crate) fn hashes_per_message(&self) -> usize {
        let room = self.client.max_payload().saturating_sub(BESIDE_HASHES) / 8;
        room.clamp(1, HASHES_PER_MESSAGE)
    }
}
