//! The history of what was ever computed: what it learns of an attempt, what it tells of the next one, and that it decides
//! nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod history {
    mod asking;
    mod decides_nothing;
    mod lifecycle;
    mod outputs;
    mod restart;
}
