//! What networks, dying servers and starved machines do to answers, and what a client sees of it: a whole answer, or an error
//! that says so. Nothing stays behind, and the next request is served.

#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

mod faults {
    mod client_left;
    mod crowd;
    mod cut;
    mod half_close;
    mod http2;
    mod informational;
    mod malformed;
    mod names;
    mod refused;
    mod site;
    mod slow;
    mod soak;
    mod starved;
    mod unwritable;
}
