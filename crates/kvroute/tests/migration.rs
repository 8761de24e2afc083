//! A stream that breaks goes on with another worker, and its client sees one answer; or it ends with an event that says why
//! it does not.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and awaits what it spawns"
)]

mod migration {
    mod asking;
    mod books;
    mod continued;
    mod ending;
    mod refused;
}
