//! What a worker said about an attempt's reuse, before anyone judged it.
//!
//! Reading the wire and judging the numbers are kept apart: a wire reader must not turn a missing number
//! into zero, and the judge must not know JSON.

/// One number of a report, as found on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Figure {
    /// The field was not there.
    #[default]
    Absent,
    /// The field was there and is no unsigned integer: null, negative, fraction, text, too large.
    Invalid,
    /// A count of tokens.
    Count(u64),
}

/// Which field of a response a report came from; the first one in this order wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportSource {
    /// `engine_data.kv_cache_hit`, the private report.
    EngineData,
    /// OpenAI `usage.prompt_tokens` with `usage.prompt_tokens_details.cached_tokens`.
    Usage,
    /// Anthropic `usage.cache_read_input_tokens`.
    AnthropicUsage,
    /// llama.cpp `timings.cache_n` with `timings.prompt_n`.
    Timings,
    /// SGLang `meta_info.cached_tokens`.
    MetaInfo,
}

/// A statement of reuse by the engine. Not yet validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerReport {
    /// Where it stood.
    pub source: ReportSource,
    /// Prompt tokens as the engine counts them.
    pub prompt: Figure,
    /// Prompt tokens that it did not compute again.
    pub reused: Figure,
}

// === impl Figure ===

impl Figure {
    /// The count, if the field held one.
    pub const fn count(self) -> Option<u64> {
        match self {
            Self::Count(count) => Some(count),
            Self::Absent | Self::Invalid => None,
        }
    }
}
