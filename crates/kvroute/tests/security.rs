//! Who may talk to a router, over what, and how much of it they may take.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "security/admin.rs"]
mod admin;
#[path = "security/conformance.rs"]
mod conformance;
#[path = "security/http2.rs"]
mod http2;
#[path = "security/keys.rs"]
mod keys;
#[path = "security/silence.rs"]
mod silence;
#[path = "security/slow.rs"]
mod slow;
#[path = "security/tls.rs"]
mod tls;
#[path = "security/workers.rs"]
mod workers;
