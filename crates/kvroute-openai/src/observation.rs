//! What a response tells while it passes.

use kvroute_core::WorkerReport;

/// Something that the router reads in a response. In the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A choice got text, reasoning or a tool call: at least one generated token.
    Content {
        /// `choices[].index`.
        choice: u32,
    },
    /// A choice is complete.
    Finish {
        /// `choices[].index`.
        choice: u32,
        /// Why.
        reason: FinishReason,
    },
    /// Token counts of the whole request so far.
    Usage(TokenCounts),
    /// A statement of reuse, not yet judged. At most one a stream chunk or body.
    Report(WorkerReport),
    /// The engine's own error inside a stream.
    Error,
    /// `data: [DONE]`: the stream is complete.
    Done,
}

/// The counts of a `usage` object; `None` where a count is absent or no unsigned integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// `prompt_tokens`.
    pub prompt: Option<u64>,
    /// `completion_tokens`: what was generated.
    pub completion: Option<u64>,
}

/// Why a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model's own end, or a stop text.
    Stop,
    /// The bound of generated tokens.
    Length,
    /// The model called a tool.
    ToolCalls,
    /// Anything else: an abort, a content filter, an engine's own word.
    Other,
}
