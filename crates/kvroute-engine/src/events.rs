//! KV events: from an engine's socket to changes of the index.
//!
//! `decode` reads payloads, `source` decides what of them may be applied, `follower` runs both on sockets. `trtllm` and
//! `polled` are the same two for an engine that is polled. `trust` puts together what the stream and what finished
//! requests say about how far all of it can be believed.

mod block_sizes;
mod decode;
mod follower;
mod link;
mod message;
mod polled;
mod replay;
mod source;
mod start_time;
mod tap;
mod trtllm;
mod trust;

pub use block_sizes::BlockSizeClaim;
pub use decode::EventDecoder;
pub use follower::{EventAddress, EventFollower, EventStream, SourceChange, SourceUpdate};
pub use polled::PolledSource;
pub use source::{BLIND_AFTER, Source, SourceAction, SourceIncident, SourceReason, SourceStatus};
pub use tap::{EventTap, Heard, ReplayProblem, TapError, check_replay};
pub use trust::RankTrust;
