//! KV events: from an engine's socket to changes of the index.
//!
//! `decode` reads payloads, `source` decides what of them may be applied, `follower` runs both on sockets.

mod decode;
mod follower;
mod link;
mod message;
mod replay;
mod source;

pub use decode::EventDecoder;
pub use follower::{EventAddress, EventFollower, EventStream, SourceChange, SourceUpdate};
pub use source::{BLIND_AFTER, Source, SourceAction, SourceIncident, SourceReason, SourceStatus};
