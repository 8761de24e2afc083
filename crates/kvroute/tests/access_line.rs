//! Each request leaves exactly one line in the log when it is over, however it ended, and what the lines say adds up to
//! what the metrics say.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod access_line {
    mod completed;
    mod failed;
    mod left;
    mod rejected;
    mod watched;
    mod written;
}
