//! The live channel of one rank: subscribes, and subscribes again for ever.
//!
//! An engine takes seconds to minutes to restart, and what it publishes before it is heard must be fetched by
//! replay, so attempts stay frequent: the pause never grows beyond one second.

use std::time::Duration;

use bytes::Bytes;
use kvroute_zmtp::{Endpoint, Incoming, Listener, Subscriber, ZmtpError};
use tokio::sync::mpsc;
use tracing::warn;

use super::message::EventMessage;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Who connects to whom.
#[derive(Debug)]
pub(super) enum Way {
    /// The publisher is bound.
    Connect(Endpoint),
    /// The publisher connects to us.
    Accept(Listener),
}

/// What happens on the live channel.
#[derive(Debug)]
pub(super) enum LinkEvent {
    Connected,
    Batch { sequence: u64, payload: Bytes },
    Disconnected,
}

/// Runs until the receiver is gone.
pub(super) async fn keep_subscribed(way: Way, topic: String, events: mpsc::Sender<LinkEvent>) {
    let mut link = Link { way, topic, events, pause: FIRST_PAUSE, last_error: String::new() };
    while !link.events.is_closed() {
        link.subscribe_once().await;
        tokio::time::sleep(link.pause).await;
        link.pause = (link.pause * 2).min(LONGEST_PAUSE);
    }
}

struct Link {
    way: Way,
    topic: String,
    events: mpsc::Sender<LinkEvent>,
    pause: Duration,
    last_error: String,
}

// === impl Link ===

impl Link {
    async fn subscribe_once(&mut self) {
        let subscribed = match &self.way {
            Way::Connect(endpoint) => Subscriber::connect(endpoint, self.topic.as_bytes()).await,
            Way::Accept(listener) => listener.accept().await.subscribe(self.topic.as_bytes()).await,
        };
        let error = match subscribed {
            Ok(subscriber) => self.forward(subscriber).await,
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            self.tell(&error);
        }
    }

    /// Passes messages on until the connection fails (its error) or nobody listens any more (`None`).
    async fn forward(&mut self, mut subscriber: Subscriber) -> Option<ZmtpError> {
        self.events.send(LinkEvent::Connected).await.ok()?;
        let (mut has_refused, mut has_skipped) = (false, false);
        let error = loop {
            let received = tokio::select! {
                received = subscriber.receive() => received,
                other = other_publisher(&self.way) => {
                    if !std::mem::replace(&mut has_refused, true) {
                        self.tell_refused(&other);
                    }
                    continue;
                }
            };
            let message = match received {
                Ok(message) => message,
                Err(error) => break error,
            };
            if let Some(EventMessage::Batch { sequence, payload }) = EventMessage::read(&message) {
                self.pause = FIRST_PAUSE;
                self.last_error.clear();
                self.events.send(LinkEvent::Batch { sequence, payload }).await.ok()?;
            } else if !std::mem::replace(&mut has_skipped, true) {
                warn!(source = %self.way, frames = message.len(), "not a kv event message, skipped like all alike");
            }
        };
        self.events.send(LinkEvent::Disconnected).await.ok()?;
        Some(error)
    }

    /// One bound address belongs to one rank: two publishers' numbers cannot be followed as one stream.
    fn tell_refused(&self, other: &Incoming) {
        warn!(
            source = %self.way, peer = %other.peer_addr(),
            "a second publisher connects to this address, refused: give each rank its own port"
        );
    }

    /// Logs an error when it is another one than the last time, since attempts never end.
    fn tell(&mut self, error: &ZmtpError) {
        let text = error.to_string();
        if text != self.last_error {
            warn!(source = %self.way, error = %text, "no kv events from here, trying again");
            self.last_error = text;
        }
    }
}

/// Whoever else connects to a bound address; pends where we connect ourselves.
async fn other_publisher(way: &Way) -> Incoming {
    match way {
        Way::Connect(_) => std::future::pending().await,
        Way::Accept(listener) => listener.accept().await,
    }
}

// === impl Way ===

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Connect(endpoint) => endpoint.fmt(f),
            Self::Accept(listener) => write!(f, "bind:{}", Endpoint::from(listener.local_addr())),
        }
    }
}
