//! Routers in front of the same engines share what they learned over a real NATS server: what one of them saw complete, the
//! others count as computed before.
//!
//! `KVROUTE_NATS_SERVER` names the program. Without it the tests are skipped with a line that says so, unless
//! `KVROUTE_REQUIRE_PEERS=1`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says on stderr why it was skipped"
)]

mod history_sharing {
    #[expect(dead_code, reason = "made for the tests of one router's history, which need more of it")]
    #[path = "../history/asking.rs"]
    mod asking;
    mod combinations;
    mod logged;
    mod outage;
    mod replicas;
    #[expect(dead_code, reason = "made for the tests of the sharing itself, which need more of it")]
    #[path = "../../../kvroute-cluster/tests/support/nats_server.rs"]
    mod server;
    mod together;
}
