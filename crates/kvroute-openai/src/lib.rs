//! The OpenAI wire as far as the router needs it: a few request fields, server-sent events, usage and
//! engine reports, and edits of JSON in place.
//!
//! Bytes are the truth here. What the router does not have to change is forwarded as it came, so number
//! forms, key order and unknown fields survive.

#![forbid(unsafe_code)]

mod body;
mod edits;
mod endpoint;
mod error;
mod json;
mod member;
mod observation;
mod obstacle;
mod prompt;
mod request;
mod response;
mod stream;
mod token_ids;

pub use body::BodyScan;
pub use endpoint::Endpoint;
pub use error::{ErrorBody, RequestError};
pub use json::{JsonError, JsonKind, JsonReader};
pub use member::{member_of, member_of_first_choice};
pub use observation::{FinishReason, Observation, TokenCounts};
pub use obstacle::Obstacle;
pub use prompt::{ChatPrompt, Prompt, RawJson};
pub use request::{AnswerSoFar, ClientRequest, UpstreamBody, UpstreamEdits};
pub use response::{Delivered, UsageCorrection};
pub use stream::{StreamScanner, UsageChunk};
pub use token_ids::{TokenIds, TokenSpan, Unasked};
