//! A short look at a rank's event sockets, beside whoever follows them: is somebody there, and can it be read?
//!
//! A publisher serves every subscriber alike, so looking costs the follower nothing. Events that are polled are gone once
//! somebody asked for them, so there is no looking at those.

use std::time::Duration;

use kvroute_core::EventBatch;
use kvroute_zmtp::{Dealer, Endpoint, Listener, Subscriber, ZmtpError};
use tokio::time::timeout;

use super::message::{EventMessage, replay_request};
use super::{EventAddress, EventDecoder};

/// Engines answer a replay between two steps; one that is silent for so long has no replay socket there.
const PATIENCE: Duration = Duration::from_secs(5);

/// No stream is ever so far, so nothing but the end of a replay follows this number.
const FAR_AHEAD: u64 = 1 << 62;

/// A subscription to one rank's events.
#[derive(Debug)]
pub struct EventTap {
    subscriber: Subscriber,
    decoder: EventDecoder,
}

/// What came on the event socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message of events.
    Batch {
        /// Its number.
        sequence: u64,
        /// What could be read of it.
        batch: EventBatch,
    },
    /// Something else, of so many frames: this is not the event socket.
    Foreign {
        /// How many.
        frames: usize,
    },
}

/// Why there is nothing to be heard.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The socket failed.
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    /// Nobody connects to the address that is ours.
    #[error("no publisher connected to {endpoint} within {} s", PATIENCE.as_secs())]
    NoPublisher {
        /// The address.
        endpoint: Endpoint,
    },
    /// Events that only one may ask for.
    #[error("events that are polled cannot be looked at without taking them")]
    Polled,
}

/// Why a replay socket is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ReplayProblem {
    /// The socket failed.
    #[error(transparent)]
    Zmtp(#[from] ZmtpError),
    /// It does not answer.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// It answers something else.
    #[error("the answer is no kv event message")]
    Unreadable,
}

// === impl EventTap ===

impl EventTap {
    /// Subscribes to a topic prefix; the empty one is everything. Where the publisher connects to us, waits for it for
    /// some seconds.
    ///
    /// # Errors
    /// Nobody is there, or somebody else.
    pub async fn open(address: &EventAddress, topic: &str) -> Result<Self, TapError> {
        let subscriber = match address {
            EventAddress::Connect(endpoint) => Subscriber::connect(endpoint, topic.as_bytes()).await?,
            EventAddress::Bind(endpoint) => {
                let listener = Listener::bind(endpoint).await?;
                let nobody = |_| TapError::NoPublisher { endpoint: endpoint.clone() };
                let publisher = timeout(PATIENCE, listener.accept()).await.map_err(nobody)?;
                publisher.subscribe(topic.as_bytes()).await?
            }
            EventAddress::Poll { .. } => return Err(TapError::Polled),
        };
        Ok(Self { subscriber, decoder: EventDecoder::default() })
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn next(&mut self) -> Result<Heard, ZmtpError> {
        let message = self.subscriber.receive().await?;
        Ok(match EventMessage::read(&message) {
            Some(EventMessage::Batch { sequence, payload }) => {
                Heard::Batch { sequence, batch: self.decoder.decode(&payload) }
            }
            Some(EventMessage::End) | None => Heard::Foreign { frames: message.len() },
        })
    }
}

/// Asks a replay socket for what no stream has reached, which costs the engine one message: the end.
///
/// # Errors
/// Nobody answers so.
pub async fn check_replay(endpoint: &Endpoint) -> Result<(), ReplayProblem> {
    let mut dealer = Dealer::connect(endpoint).await?;
    dealer.send(&replay_request(FAR_AHEAD)).await?;
    let answer = timeout(PATIENCE, dealer.receive()).await.map_err(|_| ReplayProblem::Silent)??;
    EventMessage::read(&answer).map(drop).ok_or(ReplayProblem::Unreadable)
}
