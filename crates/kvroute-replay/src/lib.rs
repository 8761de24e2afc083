//! Recorded request traces: who asked when, how long, and which blocks of the prompt were seen before.
//!
//! A public trace holds no text, only an id a block; equal ids mean equal prefixes. [`read_mooncake`] turns a
//! file into [`TraceRequest`]s, [`read_sessions`] one of whole sessions into [`Session`]s, whose requests wait for each
//! other's answers, and [`PromptSynthesizer`] turns the ids back into token ids, so that real engines
//! and a real router meet exactly the sharing that was recorded. Nothing here knows a clock: arrival times are
//! offsets from the trace's start, and every random choice is made from a seed that the caller names.

#![forbid(unsafe_code)]

mod error;
mod jitter;
mod lines;
mod mooncake;
mod prompt;
mod request;
mod session;
mod session_trace;

pub use error::{LineFault, RequestFault, TraceError};
pub use jitter::spread_ticks;
pub use mooncake::{MOONCAKE_BLOCK_SIZE, read_mooncake, read_mooncake_file};
pub use prompt::{PromptSynthesizer, TokenRange, TokenRangeError};
pub use request::{Trace, TraceRequest};
pub use session::{Session, SessionRequest, SessionTrace, SubAgent};
pub use session_trace::{SessionOptions, read_sessions, read_sessions_file};
