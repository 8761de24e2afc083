//! Drives the real binary: what a user types, reads and sends.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod binary {
    mod check;
    mod demo;
    mod engine;
    mod explain;
    mod help;
    mod metrics;
    mod process;
    mod serve;
    mod unread_log;
}
