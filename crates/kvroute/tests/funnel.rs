//! The cache-reuse funnel on real parts: simulated engines behind the real router, on real sockets. Every stage, every
//! reason, and the equations between them, to the token.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints what a long run came to"
)]

mod funnel {
    mod books;
    mod closes;
    mod closes_in_parts;
    mod eligibility;
    mod happened;
    mod left_behind;
    mod mishaps;
    mod placement;
    mod request;
    mod scripted;
    mod stage;
    mod user;
    mod without_a_trace;
    mod world;
}
