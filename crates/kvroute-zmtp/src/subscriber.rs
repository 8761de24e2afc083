//! SUB: one connection to one publisher.
//!
//! Nothing is buffered beyond one read: a consumer that falls behind stops reading, TCP stops the publisher,
//! and the publisher drops by its own high-water mark, which shows as a gap in the sequence.

use bytes::Bytes;

use crate::connection::{Connection, Received};
use crate::socket_type::SocketType;
use crate::{Endpoint, Message, ZmtpError};

/// A subscription to one publisher. Ends with the first error; its owner connects again.
#[derive(Debug)]
pub struct Subscriber {
    connection: Connection,
}

// === impl Subscriber ===

impl Subscriber {
    /// Connects to a bound publisher and subscribes to a topic prefix; the empty one is everything.
    pub async fn connect(endpoint: &Endpoint, topic: &[u8]) -> Result<Self, ZmtpError> {
        Self::start(Connection::connect(endpoint, SocketType::Subscriber).await?, topic).await
    }

    pub(crate) async fn start(mut connection: Connection, topic: &[u8]) -> Result<Self, ZmtpError> {
        let subscription = [b"\x01", topic].concat();
        connection.enqueue(&vec![Bytes::from(subscription)]);
        connection.flush().await?;
        Ok(Self { connection })
    }

    /// The next message; cancel-safe. After an error the subscription is over.
    pub async fn receive(&mut self) -> Result<Message, ZmtpError> {
        loop {
            if let Received::Message(message) = self.connection.receive().await? {
                return Ok(message);
            }
        }
    }
}
