//! The kinds of engines that are told apart.

use std::fmt;

use kvroute_openai::Unasked;

use crate::capabilities::{AbortCall, Handoff, RankSteering};
use crate::spec::{ChatStyle, EngineSpec};
use crate::{llamacpp, openai, sglang, trtllm, vllm};

/// What serves behind a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM's `trtllm-serve`.
    TensorRtLlm,
    /// llama.cpp's `llama-server`.
    LlamaCpp,
    /// Anything else with OpenAI's API: reports are read, nothing else is known.
    OpenAi,
}

// === impl EngineKind ===

impl EngineKind {
    /// Every kind; the one that fits anything comes last.
    pub const ALL: [Self; 5] = [Self::Vllm, Self::Sglang, Self::TensorRtLlm, Self::LlamaCpp, Self::OpenAi];

    pub(crate) const fn spec(self) -> &'static EngineSpec {
        match self {
            Self::Vllm => &vllm::SPEC,
            Self::Sglang => &sglang::SPEC,
            Self::TensorRtLlm => &trtllm::SPEC,
            Self::LlamaCpp => &llamacpp::SPEC,
            Self::OpenAi => &openai::SPEC,
        }
    }

    /// Name for logs and labels.
    pub const fn as_str(self) -> &'static str {
        self.spec().name
    }

    /// Whether `stream_options.include_usage` may be sent with a stream.
    pub const fn accepts_stream_options(self) -> bool {
        self.spec().accepts_stream_options
    }

    /// Whether a client that asks for `continuous_usage_stats` alone gets it: then it must get it from the router too.
    pub const fn heeds_continuous_usage_alone(self) -> bool {
        self.spec().heeds_continuous_usage_alone
    }

    /// Whether `return_token_ids` may be sent with every chat and completion and brings the ids of generated tokens.
    pub const fn gives_token_ids(self) -> bool {
        self.spec().gives_token_ids
    }

    /// What the engine writes in the place of token ids without that question.
    pub const fn unasked_token_ids(self) -> Unasked {
        self.spec().unasked_token_ids
    }

    /// Whether `cache_salt` in a request keeps its KV apart from that of others.
    pub const fn takes_cache_salt(self) -> bool {
        self.spec().takes_cache_salt
    }

    /// Whether a field that the engine does not know is answered by an error.
    pub const fn refuses_unknown_fields(self) -> bool {
        self.spec().refuses_unknown_fields
    }

    /// Whether the cached tokens that are reported for a list of prompts are those of all of them. Where they are
    /// not, such a report is no measure of reuse.
    pub const fn sums_reuse_of_prompt_lists(self) -> bool {
        self.spec().sums_reuse_of_prompt_lists
    }

    /// How a request picks a data-parallel rank.
    pub const fn rank_steering(self) -> RankSteering {
        self.spec().rank_steering
    }

    /// How KV is handed from a prefill worker to a decode worker; `None` where the engine cannot.
    pub const fn handoff(self) -> Option<Handoff> {
        self.spec().handoff
    }

    /// How the engine is told to give up a request by its id; `None` where a closed connection must do.
    pub const fn aborts(self) -> Option<AbortCall> {
        self.spec().aborts
    }

    /// Whether the engine has a way to tokenize a chat for others.
    pub const fn tokenizes_chats(self) -> bool {
        self.spec().tokenize_chat.is_some()
    }

    /// Whether the engine has a way to tokenize text for others.
    pub const fn tokenizes_text(self) -> bool {
        self.spec().tokenize_text.is_some()
    }

    /// Whether the engine is known to tell what it makes of a chat with images, given the right settings.
    pub const fn renders_images(self) -> bool {
        self.spec().render.is_some()
    }

    /// What to change so that it tells that; empty where nothing helps.
    pub const fn render_remedy(self) -> &'static str {
        self.spec().render_remedy
    }

    /// Whether the engine is known to publish KV events, given the right settings.
    pub const fn can_publish_events(self) -> bool {
        self.spec().can_publish_events
    }

    /// How the engine normalises a chat before templating.
    pub const fn chat_style(self) -> ChatStyle {
        self.spec().chat_style
    }

    /// What to change so that the engine reports cached tokens.
    pub const fn report_remedy(self) -> &'static str {
        self.spec().report_remedy
    }

    /// Whether the engine is known to tell its load.
    pub const fn tells_load(self) -> bool {
        !self.spec().load.is_empty()
    }

    /// What to change so that the engine tells its load.
    pub const fn load_remedy(self) -> &'static str {
        self.spec().load_remedy
    }

    /// What to change so that the engine caches prefixes.
    pub const fn caching_remedy(self) -> &'static str {
        self.spec().caching_remedy
    }

    /// What to change so that the engine publishes KV events.
    pub const fn events_remedy(self) -> &'static str {
        self.spec().events_remedy
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
