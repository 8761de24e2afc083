//! The part of a request that one attempt serves.

/// Label of every attempt, frozen when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Prompt and generation on one worker.
    Aggregated,
    /// Only the prompt of a disaggregated request.
    Prefill,
    /// Only the generation of a disaggregated request; its engine counts transferred KV as cached.
    Decode,
}

// === impl Phase ===

impl Phase {
    /// Every phase, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Aggregated, Self::Prefill, Self::Decode];

    /// The label value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Aggregated => "aggregated",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}
