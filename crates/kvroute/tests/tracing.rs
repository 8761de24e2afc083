//! Traces go through the router: what a worker is told of the trace that a request belongs to, and what a collector gets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod tracing {
    mod collector;
    mod context;
    mod export;
    mod router;
    mod trouble;
    mod worker;
}
