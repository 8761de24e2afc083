//! Fields that only engines read, and those that one of them knows at all.

use kvroute_core::TokenId;
use kvroute_openai::Endpoint;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::config::Flavour;
use crate::http::error::ApiError;

/// Fields that only the engine reads, of all engines.
#[derive(Debug, Default, Deserialize)]
pub(in crate::http) struct EngineFields {
    request_id: Option<String>,
    rid: Option<String>,
    pub(super) return_token_ids: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) temperature: Option<f64>,
    pub(super) max_tokens: Option<f64>,
    pub(super) max_completion_tokens: Option<f64>,
    pub(super) messages: Option<IgnoredAny>,
    pub(super) prompt_token_ids: Option<Vec<TokenId>>,
    tools: Option<Vec<Value>>,
    #[serde(alias = "data_parallel_rank")]
    pub(super) routed_dp_rank: Option<i64>,
    pub(super) id_slot: Option<i64>,
    pub(super) cache_prompt: Option<bool>,
    pub(super) timings_per_token: Option<bool>,
    pub(super) return_progress: Option<bool>,
    pub(in crate::http) kv_transfer_params: Option<Value>,
    pub(in crate::http) disaggregated_params: Option<Value>,
    pub(in crate::http) bootstrap_host: Option<String>,
    pub(in crate::http) bootstrap_port: Option<u16>,
    pub(in crate::http) bootstrap_room: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct StreamOptions {
    pub(super) continuous_usage_stats: Option<bool>,
}

/// What `trtllm-serve` knows of both kinds of requests.
const KNOWN: [&str; 38] = [
    "model",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "user",
    "best_of",
    "echo",
    "lora_request",
    "prompt_ignore_length",
    "use_beam_search",
    "top_k",
    "top_p_min",
    "min_p",
    "repetition_penalty",
    "length_penalty",
    "early_stopping",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "truncate_prompt_tokens",
    "add_special_tokens",
    "response_format",
    "disaggregated_params",
    "priority",
    "conversation_params",
    "thinking_token_budget",
];

/// What it knows of chats beside that.
const KNOWN_OF_CHATS: [&str; 19] = [
    "messages",
    "prompt_token_ids",
    "prompt_token_ids_b64",
    "max_completion_tokens",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "thinking",
    "add_generation_prompt",
    "documents",
    "chat_template",
    "chat_template_kwargs",
    "injected_chat_template_kwargs",
    "media_io_kwargs",
    "cache_salt",
    "agent_hierarchy",
    "mm_processor_kwargs",
];

/// What it knows of texts beside that.
const KNOWN_OF_TEXTS: [&str; 4] = ["prompt", "suffix", "return_context_logits", "detokenize"];

/// Refuses a body with a field that `trtllm-serve` does not know, or without a model.
pub(super) fn refuse_unknown(endpoint: Endpoint, body: &[u8]) -> Result<(), ApiError> {
    let fields: Map<String, Value> = serde_json::from_slice(body)?;
    let rest: &[&str] = match endpoint {
        Endpoint::Completions => &KNOWN_OF_TEXTS,
        _ => &KNOWN_OF_CHATS,
    };
    let is_known = |field: &str| KNOWN.contains(&field) || rest.contains(&field);
    if let Some(field) = fields.keys().find(|field| !is_known(field)) {
        return Err(ApiError::unknown_field(field));
    }
    if !fields.contains_key("model") {
        return Err(ApiError::validation(String::from("body.model"), "Field required"));
    }
    let is_stream = fields.get("stream").is_some_and(|stream| *stream == Value::Bool(true));
    let has_options = fields.get("stream_options").is_some_and(|options| !options.is_null());
    if endpoint == Endpoint::Completions && has_options && !is_stream {
        let message = "Stream options can only be defined when stream is true.";
        return Err(ApiError::validation(String::from("body"), message));
    }
    Ok(())
}

// === impl EngineFields ===

impl EngineFields {
    /// What the client calls the request.
    pub(super) fn id(&self, flavour: Flavour) -> Option<String> {
        match flavour {
            Flavour::Vllm => self.request_id.clone(),
            Flavour::Sglang => self.rid.clone(),
            Flavour::TrtLlm | Flavour::LlamaCpp => None,
        }
    }

    /// Name of the first tool.
    pub(super) fn first_tool(&self) -> Option<String> {
        let tool = self.tools.as_ref()?.first()?;
        tool["function"]["name"].as_str().map(str::to_owned)
    }
}
