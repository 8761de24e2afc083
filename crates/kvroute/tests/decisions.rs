//! Every decision can be explained: what was served leaves a record that its report is added to, and what is only asked
//! leaves no trace at all.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod decisions {
    mod advice;
    mod fleet;
    mod records;
    mod traces;
}
