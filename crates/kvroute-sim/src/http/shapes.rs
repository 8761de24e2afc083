//! The JSON of answers, field for field and in the order of vLLM 0.32. Fields of type `()` are always null.

pub(super) mod chat;
pub(super) mod completion;
pub(super) mod message;
pub(super) mod response;
pub(super) mod usage;

/// How an answer of words ends.
pub(super) const FINISH_REASON: &str = "length";
/// How an answer ends that calls a tool.
pub(super) const TOOL_FINISH_REASON: &str = "tool_calls";
