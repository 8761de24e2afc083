//! What there is to know about one kind of engine, as a table row.

use kvroute_core::BlockSize;
use kvroute_openai::{ChatPrompt, Unasked};

use crate::capabilities::{AbortCall, Handoff, RankSteering};
use crate::load::LoadQuestion;
use crate::probe::{Answers, Probe};

/// One row of the table. A new engine is a new file with one of these, and a variant of
/// [`EngineKind`](crate::EngineKind).
pub(crate) struct EngineSpec {
    /// Name for logs and labels.
    pub(crate) name: &'static str,
    /// What `/v1/models` says in `owned_by`.
    pub(crate) owner: &'static str,
    /// A path that only this engine answers, for builds that hide their owner; empty where there is none.
    pub(crate) telltale: &'static str,
    /// Further paths that a probe asks; each may be absent.
    pub(crate) questions: &'static [&'static str],
    /// Reads the answers.
    pub(crate) describe: fn(&Answers, &mut Probe),
    /// Counted in when the engine has no blocks or does not tell their size.
    pub(crate) assumed_block_size: Option<BlockSize>,
    /// Whether a stream may be asked for usage.
    pub(crate) accepts_stream_options: bool,
    /// Whether `continuous_usage_stats` brings usage in every chunk without `include_usage` beside it.
    pub(crate) heeds_continuous_usage_alone: bool,
    /// Whether `return_token_ids` brings the generated ids, with a chat and a completion, streamed and whole.
    pub(crate) gives_token_ids: bool,
    /// What stands in their place without the question.
    pub(crate) unasked_token_ids: Unasked,
    /// Whether `cache_salt` keeps a request's KV apart from that of others.
    pub(crate) takes_cache_salt: bool,
    /// Whether an unknown field is an error.
    pub(crate) refuses_unknown_fields: bool,
    /// Whether the cached tokens of a list of prompts are those of all of them.
    pub(crate) sums_reuse_of_prompt_lists: bool,
    /// What picks a data-parallel rank.
    pub(crate) rank_steering: RankSteering,
    /// How KV is handed over between workers.
    pub(crate) handoff: Option<Handoff>,
    /// How a request is given up by its id.
    pub(crate) aborts: Option<AbortCall>,
    /// How a chat is changed before the template sees it.
    pub(crate) chat_style: ChatStyle,
    /// What makes it report cached tokens.
    pub(crate) report_remedy: &'static str,
    /// What makes it cache prefixes.
    pub(crate) caching_remedy: &'static str,
    /// Whether it can publish KV events at all.
    pub(crate) can_publish_events: bool,
    /// What makes it publish KV events.
    pub(crate) events_remedy: &'static str,
    /// Where it tells its load: the next is asked where the one before tells none. Empty where it is not known to.
    pub(crate) load: &'static [LoadQuestion],
    /// What makes it tell its load.
    pub(crate) load_remedy: &'static str,
    /// How to have a chat tokenized; `None` where it cannot.
    pub(crate) tokenize_chat: Option<ChatStep>,
    /// How to have text tokenized; `None` where it cannot.
    pub(crate) tokenize_text: Option<TextStep>,
    /// Where it tells what it makes of a chat with images; `None` where it cannot.
    pub(crate) render: Option<&'static str>,
    /// What makes it tell that.
    pub(crate) render_remedy: &'static str,
}

/// Writes the call for a model's name and a chat.
pub(crate) type ChatStep = fn(&str, &ChatPrompt) -> StepResult;
/// Writes the call for a model's name, a text, and whether special tokens are added.
pub(crate) type TextStep = fn(&str, &str, bool) -> StepResult;
/// Fails only where a request cannot be written as JSON.
pub(crate) type StepResult = Result<TokenizeStep, serde_json::Error>;

/// How an engine normalises a chat before templating. Rendering the same way is the router's tokenizer's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChatStyle {
    /// As Hugging Face's `apply_chat_template`: nothing is changed.
    Plain,
    /// vLLM's typed request model: text parts joined, tools in a fixed key order, arguments parsed.
    Vllm,
    /// SGLang's: tools in the client's key order with further nulls, parts of tool results joined by a space.
    Sglang,
    /// llama.cpp's own template engine; only the server itself can tell.
    LlamaCpp,
}

/// One call on the way to token ids.
pub(crate) struct TokenizeStep {
    pub(crate) path: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) brings: Brings,
}

/// What the answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brings {
    /// `{"tokens": [...]}`.
    Tokens,
    /// `{"prompt": "..."}`, to be tokenized as text in a second call.
    Text,
}
