//! Workers that fail: who gets no more requests, what is sent again, and what clients are told.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and awaits what it spawns"
)]

mod breaker {
    mod budget;
    mod excluded;
    mod first_event;
    mod handed_over;
    mod health;
    mod limits;
    mod opening;
    mod scripted;
    mod strangers;
    mod trials;
    mod world;
}
