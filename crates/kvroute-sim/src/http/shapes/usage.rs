//! `usage`: complete in whole responses, without its nulls at the end of a stream.

use serde::Serialize;

/// Where the prompt's tokens came from.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct PromptDetails {
    pub(in crate::http) cached_tokens: Option<u64>,
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
    cached_tokens: Option<u64>,
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
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_cache_tokens: Option<u64>,
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
