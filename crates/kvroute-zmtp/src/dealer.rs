//! DEALER: one connection to one router; requests and answers are not tied to each other.

use crate::connection::{Connection, Received};
use crate::socket_type::SocketType;
use crate::{Endpoint, Message, ZmtpError};

/// A connection to a bound ROUTER. Ends with the first error; its owner connects again.
#[derive(Debug)]
pub struct Dealer {
    connection: Connection,
}

// === impl Dealer ===

impl Dealer {
    /// Connects to a bound router.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, ZmtpError> {
        let connection = Connection::connect(endpoint, SocketType::Dealer).await?;
        Ok(Self { connection })
    }

    /// Sends one message whole.
    pub async fn send(&mut self, message: &Message) -> Result<(), ZmtpError> {
        self.connection.enqueue(message);
        self.connection.flush().await
    }

    /// The next message; cancel-safe. After an error the connection is over.
    pub async fn receive(&mut self) -> Result<Message, ZmtpError> {
        loop {
            if let Received::Message(message) = self.connection.receive().await? {
                return Ok(message);
            }
        }
    }
}
