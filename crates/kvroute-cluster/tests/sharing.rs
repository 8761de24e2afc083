//! Replicas share their histories over a real NATS server.
//!
//! `KVROUTE_NATS_SERVER` names the program. Without it the tests are skipped with a line that says so, unless
//! `KVROUTE_REQUIRE_PEERS=1`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says on stderr why it was skipped"
)]

mod sharing {
    pub(crate) mod exchange;
    pub(crate) mod faults;
    pub(crate) mod joining;
    pub(crate) mod log;
    pub(crate) mod outsider;
    pub(crate) mod relay;
    pub(crate) mod replica;
    #[path = "../support/nats_server.rs"]
    pub(crate) mod server;
    pub(crate) mod trust;
}
