//! `usage`: complete in whole responses, without its nulls at the end of a stream; and in the words of the other APIs.

use kvroute_core::TokenId;
use serde::Serialize;

use crate::misreport::ToldTokens;

/// Where the prompt's tokens came from.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct PromptDetails {
    pub(in crate::http) cached_tokens: ToldTokens,
    /// Told for chats only.
    pub(in crate::http) created_cache_tokens: Option<u64>,
}

/// Usage of a whole response.
#[derive(Debug, Serialize)]
pub(in crate::http) struct WholeUsage {
    prompt_tokens: u64,
    total_tokens: u64,
    completion_tokens: u64,
    prompt_tokens_details: Option<WholeDetails>,
    completion_tokens_details: (),
}

#[derive(Debug, Serialize)]
struct WholeDetails {
    cached_tokens: ToldTokens,
    created_cache_tokens: Option<u64>,
    multimodal_tokens: (),
}

/// Usage of a stream's chunk.
#[derive(Debug, Serialize)]
pub(in crate::http) struct StreamUsage {
    prompt_tokens: u64,
    total_tokens: u64,
    completion_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<StreamDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<()>,
}

#[derive(Debug, Serialize)]
struct StreamDetails {
    cached_tokens: ToldTokens,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_cache_tokens: Option<u64>,
}

/// Usage of `/v1/responses`: `input_tokens` is the whole prompt.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ResponsesUsage {
    input_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens_details: Option<InputDetails>,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Debug, Serialize)]
struct InputDetails {
    cached_tokens: ToldTokens,
    cache_write_tokens: u64,
    input_tokens_per_turn: [u64; 0],
    cached_tokens_per_turn: [u64; 0],
}

#[derive(Debug, Default, Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
    tool_output_tokens: u64,
    output_tokens_per_turn: [u64; 0],
    tool_output_tokens_per_turn: [u64; 0],
}

/// Usage of `/v1/messages`: `input_tokens` is what was neither read from the cache nor written to it.
#[derive(Debug, Serialize)]
pub(in crate::http) struct MessageUsage {
    input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_input_tokens: Option<ToldTokens>,
}

/// What a chat or text says in private: a report, generated ids, or both.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::http) struct PrivateData<'a> {
    #[serde(flatten)]
    report: Option<EngineData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [TokenId]>,
}

/// The private report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::http) struct EngineData {
    kv_cache_hit: CacheHit,
    engine: &'static str,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct CacheHit {
    prompt_tokens: u64,
    reused_tokens: ToldTokens,
    tier: &'static str,
}

// === impl WholeUsage ===

impl WholeUsage {
    pub(in crate::http) fn new(prompt: u64, completion: u64, details: Option<PromptDetails>) -> Self {
        Self {
            prompt_tokens: prompt,
            total_tokens: prompt + completion,
            completion_tokens: completion,
            prompt_tokens_details: details.map(|details| WholeDetails {
                cached_tokens: details.cached_tokens,
                created_cache_tokens: details.created_cache_tokens,
                multimodal_tokens: (),
            }),
            completion_tokens_details: (),
        }
    }
}

// === impl StreamUsage ===

impl StreamUsage {
    /// The usage chunk's.
    pub(in crate::http) fn last(prompt: u64, completion: u64, details: Option<PromptDetails>) -> Self {
        let prompt_tokens_details = details.map(|details| StreamDetails {
            cached_tokens: details.cached_tokens,
            created_cache_tokens: details.created_cache_tokens,
        });
        Self { prompt_tokens_details, completion_tokens_details: None, ..Self::so_far(prompt, completion) }
    }

    /// Any other chunk's.
    pub(in crate::http) const fn so_far(prompt: u64, completion: u64) -> Self {
        Self {
            prompt_tokens: prompt,
            total_tokens: prompt + completion,
            completion_tokens: completion,
            prompt_tokens_details: None,
            completion_tokens_details: Some(()),
        }
    }
}

// === impl ResponsesUsage ===

impl ResponsesUsage {
    pub(in crate::http) fn new(prompt: u64, completion: u64, details: Option<PromptDetails>) -> Self {
        Self {
            input_tokens: prompt,
            input_tokens_details: details.map(|details| InputDetails {
                cached_tokens: details.cached_tokens,
                cache_write_tokens: 0,
                input_tokens_per_turn: [],
                cached_tokens_per_turn: [],
            }),
            output_tokens: completion,
            output_tokens_details: OutputDetails::default(),
            total_tokens: prompt + completion,
        }
    }
}

// === impl MessageUsage ===

impl MessageUsage {
    /// At the start of a stream, where only the prompt's length is told.
    pub(in crate::http) const fn start(prompt: u64) -> Self {
        Self {
            input_tokens: prompt,
            output_tokens: 0,
            cache_creation_input_tokens: None,
            cache_read_input_tokens: None,
        }
    }

    pub(in crate::http) fn new(prompt: u64, completion: u64, details: Option<PromptDetails>) -> Self {
        let read = details.map(|details| details.cached_tokens);
        let apart = read.map_or(0, ToldTokens::count);
        Self {
            input_tokens: prompt.saturating_sub(apart),
            output_tokens: completion,
            cache_creation_input_tokens: details.map(|_| 0),
            cache_read_input_tokens: read,
        }
    }
}

// === impl PrivateData ===

impl<'a> PrivateData<'a> {
    /// `None` where there is nothing to say.
    pub(in crate::http) fn new(report: Option<EngineData>, token_ids: Option<&'a [TokenId]>) -> Option<Self> {
        (report.is_some() || token_ids.is_some()).then_some(Self { report, token_ids })
    }
}

// === impl EngineData ===

impl EngineData {
    pub(in crate::http) const fn new(prompt_tokens: u64, reused_tokens: ToldTokens) -> Self {
        Self { kv_cache_hit: CacheHit { prompt_tokens, reused_tokens, tier: "device" }, engine: "simulated" }
    }
}
