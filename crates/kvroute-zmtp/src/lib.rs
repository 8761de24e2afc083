//! ZMTP 3.0 over TCP with the NULL mechanism: as much of ZeroMQ as KV events need.
//!
//! Engines publish with libzmq, which is C++; a router that is built by Rust and a C linker alone needs its own
//! half of the protocol. It is small: a greeting, one READY command, then length-prefixed frames. What a general
//! library hides is what a router must see: which peer a message came from (two publishers that connect to one
//! bound subscriber count independently), when a connection came and went, and that a peer's host is gone
//! (TCP keepalive). What it must survive: heartbeats (PING is answered), and a peer that lies about a length
//! (a message is bounded, and memory grows only with bytes that arrived).
//!
//! Every socket is one connection or one listener that its owner drives; nothing reconnects behind its back.

#![forbid(unsafe_code)]

mod command;
mod connection;
mod dealer;
mod endpoint;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzz;
mod greeting;
mod listener;
mod publisher;
mod router;
mod socket_type;
mod subscriber;

pub use dealer::Dealer;
pub use endpoint::{Endpoint, InvalidEndpoint};
pub use error::ZmtpError;
pub use listener::{Incoming, Listener};
pub use publisher::Publisher;
pub use router::{PeerId, Router};
pub use subscriber::Subscriber;

/// The frames of one multipart message, in order; never empty.
pub type Message = Vec<bytes::Bytes>;
