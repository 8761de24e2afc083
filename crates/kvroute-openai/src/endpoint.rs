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

    /// The endpoint of that path, or of that label.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| [endpoint.path(), endpoint.label()].contains(&name))
    }

    /// The value of the metric label `endpoint`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_known_by_its_path_and_by_its_label() {
        for endpoint in Endpoint::ALL {
            assert_eq!(Endpoint::named(endpoint.path()), Some(endpoint));
            assert_eq!(Endpoint::named(endpoint.label()), Some(endpoint));
        }
        assert_eq!(Endpoint::named("/v1/embeddings"), None);
    }
}
