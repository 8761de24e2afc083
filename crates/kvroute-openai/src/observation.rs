//! What a response tells while it passes.

use kvroute_core::WorkerReport;

/// Something that the router reads in a response. In the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A choice got text, reasoning or a part of a tool call: at least one generated token.
    Content {
        /// `choices[].index`; 0 where an API has no choices.
        choice: u32,
    },
    /// A choice is complete.
    Finish {
        /// `choices[].index`; 0 where an API has no choices.
        choice: u32,
        /// Why.
        reason: FinishReason,
    },
    /// Token counts of the whole request so far.
    Usage(TokenCounts),
    /// A statement of reuse, not yet judged. At most one a stream chunk or body.
    Report(WorkerReport),
    /// The engine's own error, inside a stream or in the place of a whole answer.
    Error,
    /// The stream is complete: `data: [DONE]`, or the last event of `/v1/responses` or `/v1/messages`.
    Done,
}

/// The counts of a `usage` object; `None` where a count is absent or no unsigned integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// `prompt_tokens`, or what amounts to it: the whole prompt, cached or not.
    pub prompt: Option<u64>,
    /// `completion_tokens` or `output_tokens`: what was generated.
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
