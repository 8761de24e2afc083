//! What can go wrong with a peer.

use std::io;

use crate::Endpoint;

/// A connection or a listener failed.
#[derive(Debug, thiserror::Error)]
pub enum ZmtpError {
    /// The address cannot be listened on: in use, not ours, not permitted.
    #[error("cannot bind {endpoint}: {source}")]
    Bind {
        /// The address asked for.
        endpoint: Endpoint,
        /// The system's reason.
        source: io::Error,
    },
    /// No TCP connection: refused, unreachable, unknown host.
    #[error("cannot connect to {endpoint}: {source}")]
    Connect {
        /// The address asked for.
        endpoint: Endpoint,
        /// The system's reason.
        source: io::Error,
    },
    /// A wildcard names every local address; nothing can be connected to there.
    #[error("cannot connect to the wildcard {0}: name a host")]
    ConnectToWildcard(Endpoint),
    /// The connection broke.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// The peer closed the connection.
    #[error("peer closed the connection")]
    Closed,
    /// The peer does not speak ZMTP 3 with the NULL mechanism.
    #[error("not a usable zeromq peer: {0}")]
    Handshake(&'static str),
    /// The peer refused with an ERROR command.
    #[error("peer refused: {0}")]
    Refused(String),
    /// The peer broke the protocol after the handshake.
    #[error("peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// The peer did not finish the handshake in time.
    #[error("no zeromq handshake in time")]
    HandshakeTimeout,
}
