//! Entry of the fuzzer, which brings its own stream. Not part of the API.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::connection::{Connection, Received};
use crate::publisher::SubscriptionChange;
use crate::socket_type::SocketType;
use crate::{Message, ZmtpError};

/// Which socket the peer meets.
const SOCKETS: [SocketType; 4] =
    [SocketType::Publisher, SocketType::Subscriber, SocketType::Router, SocketType::Dealer];

/// Everything that a peer said, and the error that ended it.
#[derive(Debug)]
pub struct Heard {
    /// Whole messages, in order.
    pub messages: Vec<Message>,
    /// Topic prefixes that were subscribed to or given up.
    pub prefixes: Vec<Vec<u8>>,
    /// Why no more is read; the end of the stream is one of the reasons.
    pub end: ZmtpError,
}

/// Greets and listens as a socket does, until the stream ends or breaks the protocol.
pub async fn listen(stream: impl AsyncRead + AsyncWrite + Unpin, socket: u8) -> Heard {
    let own = SOCKETS[usize::from(socket) % SOCKETS.len()];
    let (mut messages, mut prefixes) = (Vec::new(), Vec::new());
    let end = match Connection::greet_over(stream, own).await {
        Ok(connection) => take_all(connection, &mut messages, &mut prefixes).await,
        Err(error) => error,
    };
    Heard { messages, prefixes, end }
}

async fn take_all(
    mut connection: Connection<impl AsyncRead + AsyncWrite + Unpin>,
    messages: &mut Vec<Message>,
    prefixes: &mut Vec<Vec<u8>>,
) -> ZmtpError {
    loop {
        let received = match connection.receive().await {
            Ok(received) => received,
            Err(error) => return error,
        };
        if let Received::Message(message) = &received {
            messages.push(message.clone());
        }
        prefixes.extend(SubscriptionChange::read(received).map(SubscriptionChange::into_prefix));
    }
}
