//! The simulated engine over real sockets: shapes, accounting, events, cancellation and faults.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking and says on stdout why it was skipped"
)]

mod accounting;
mod disconnects;
mod encoder;
mod event_faults;
mod events;
mod faults;
mod flavours;
mod handover;
mod http;
mod images;
mod libzmq;
mod lifecycle;
mod pooling;
mod ranks;
mod restarts;
mod shapes;
mod shortened;
mod token_ids;
mod tool_calls;
mod typed;
