//! What an engine says of reuse, in the words of every endpoint, streamed and whole: what the router counts must be what
//! the engine itself counted, and every odd word must have its own outcome.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "report_shapes/asking.rs"]
mod asking;
#[path = "report_shapes/broken.rs"]
mod broken;
#[path = "report_shapes/continued.rs"]
mod continued;
#[path = "report_shapes/dispatched.rs"]
mod dispatched;
#[path = "report_shapes/early.rs"]
mod early;
#[path = "report_shapes/injection.rs"]
mod injection;
#[path = "report_shapes/latency.rs"]
mod latency;
#[path = "report_shapes/mixed.rs"]
mod mixed;
#[path = "report_shapes/odd.rs"]
mod odd;
#[path = "report_shapes/refused.rs"]
mod refused;
#[path = "report_shapes/scripted.rs"]
mod scripted;
#[path = "report_shapes/shapes.rs"]
mod shapes;
