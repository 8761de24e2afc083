//! The endpoints whose bodies are understood, and those of which nothing but the model is read.

/// An inference endpoint of the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// Chat: the prompt is made by the model's chat template.
    ChatCompletions,
    /// Text or token ids as they are.
    Completions,
    /// OpenAI's conversations with items. How an engine makes a prompt of them is not known here.
    Responses,
    /// Anthropic's messages. How an engine makes a prompt of them is not known here.
    Messages,
    /// Vectors of texts.
    Embeddings,
    /// Documents in the order of how well they answer a query.
    Rerank,
    /// How well pairs of texts belong together.
    Score,
    /// Token ids of a text or a chat.
    Tokenize,
    /// Text of token ids.
    Detokenize,
}

// === impl Endpoint ===

impl Endpoint {
    /// Every endpoint.
    pub const ALL: [Self; 9] = [
        Self::ChatCompletions,
        Self::Completions,
        Self::Responses,
        Self::Messages,
        Self::Embeddings,
        Self::Rerank,
        Self::Score,
        Self::Tokenize,
        Self::Detokenize,
    ];

    /// Those that generate an answer: their prompts are what caches hold.
    pub const GENERATING: [Self; 4] =
        [Self::ChatCompletions, Self::Completions, Self::Responses, Self::Messages];

    /// The HTTP path, the same at the client's side and at the engine's.
    pub const fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
            Self::Embeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/v1/score",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
        }
    }

    /// The endpoint of that path, or of that label.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| [endpoint.path(), endpoint.label()].contains(&name))
    }

    /// Its short name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Messages => "messages",
            Self::Embeddings => "embeddings",
            Self::Rerank => "rerank",
            Self::Score => "score",
            Self::Tokenize => "tokenize",
            Self::Detokenize => "detokenize",
        }
    }

    /// Whether an answer is generated from a prompt. The others are routed by load, and nothing of them but the model is
    /// read.
    pub const fn generates(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions | Self::Responses | Self::Messages)
    }

    /// Whether the engine's model is run: only then is there a cache, and something in it to keep apart.
    pub const fn computes(self) -> bool {
        !matches!(self, Self::Tokenize | Self::Detokenize)
    }

    /// Whether a stream tells its usage only if `stream_options.include_usage` asks for it. The streams of the others
    /// always do.
    pub const fn has_stream_options(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::Completions)
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
        assert_eq!(Endpoint::named("/v1/images"), None);
        let generating: Vec<_> = Endpoint::ALL.into_iter().filter(|endpoint| endpoint.generates()).collect();
        assert_eq!(generating, Endpoint::GENERATING);
    }
}
