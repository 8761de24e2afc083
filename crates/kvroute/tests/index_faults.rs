//! What the index knows while event streams lose, repeat, restart and lie: simulated engines with switched faults
//! behind the real router, on real sockets.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints what a long run came to"
)]

mod index_faults {
    mod asking;
    mod blind;
    mod burst;
    mod ordeal;
    mod remembered;
    mod restart;
    mod snapshot;
    mod traffic;
    mod under_random_faults;
    mod verdict;
    mod wipe;
}
