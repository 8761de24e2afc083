//! What a response tells while it passes.

use kvroute_core::WorkerReport;

use crate::TokenSpan;

/// Something that the router reads in a response. In the order of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A choice got text, reasoning or a part of a tool call: at least one generated token.
    Content {
        /// `choices[].index`; 0 where an API has no choices.
        choice: u32,
    },
    /// The ids of tokens that a choice got with this part, whether they show as text or not. Comes behind the choice's
    /// content and before its end; never where ids are [ignored](crate::TokenIds::Ignore).
    Generated {
        /// `choices[].index`.
        choice: u32,
        /// Where they stand in the list that comes with the observations; `None` where the engine sent something that is
        /// no list of token ids, so that which tokens were generated is not known.
        ids: Option<TokenSpan>,
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
    /// The engine gave up on it: it was aborted or cancelled, failed or ran out of time.
    Aborted,
    /// Anything else: a content filter, an engine's own word.
    Other,
}
