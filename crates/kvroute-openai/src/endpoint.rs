//! The endpoints whose bodies are understood.

/// An inference endpoint that is routed by its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// Chat: the prompt is made by the model's chat template.
    ChatCompletions,
    /// Text or token ids as they are.
    Completions,
}

// === impl Endpoint ===

impl Endpoint {
    /// Every endpoint.
    pub const ALL: [Self; 2] = [Self::ChatCompletions, Self::Completions];

    /// The HTTP path, the same at the client's side and at the engine's.
    pub const fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }

    /// The value of the metric label `endpoint`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
        }
    }
}
