//! Workers that compute prompts for others: in every engine's own way, on real sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "disaggregated/handing_over.rs"]
mod handing_over;
#[path = "disaggregated/in_vain.rs"]
mod in_vain;
#[path = "disaggregated/nobody.rs"]
mod nobody;
#[path = "disaggregated/split.rs"]
mod split;
#[path = "disaggregated/time_limits.rs"]
mod time_limits;
#[path = "disaggregated/unconnected.rs"]
mod unconnected;
