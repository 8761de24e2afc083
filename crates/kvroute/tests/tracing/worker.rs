//! Workers that keep the headers of what they were asked.

use kvroute_testkit::{PlainAnswer, PlainWorker};
use serde_json::json;

/// The model that they serve.
pub(crate) const MODEL: &str = "m";

/// One that answers and counts the prompt.
pub(crate) async fn answering() -> PlainWorker {
    let usage = json!({"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}});
    PlainWorker::start(MODEL, PlainAnswer::text(usage)).await
}

/// One that closes the connection of every request that it was given.
pub(crate) async fn breaking() -> PlainWorker {
    PlainWorker::start(MODEL, PlainAnswer::HangUp).await
}
