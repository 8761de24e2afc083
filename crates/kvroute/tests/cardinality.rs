//! What Prometheus has to store is bounded by the configuration: nothing that a client sends becomes a series, nobody who
//! leaves leaves one behind, and how many there will be is known at the start.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod cardinality {
    mod exposition;
    mod junk;
    mod leaver;
    mod names;
    mod number;
    mod of_a_history;
}
