//! `/v1/completions`.

use kvroute_core::TokenId;
use serde::Serialize;
use serde_json::Value;

use super::FINISH_REASON;
use super::usage::{PrivateData, StreamUsage, WholeUsage};

/// A whole response.
#[derive(Debug, Serialize)]
pub(in crate::http) struct CompletionResponse<'a> {
    pub(in crate::http) id: &'a str,
    pub(in crate::http) object: &'static str,
    pub(in crate::http) created: u64,
    pub(in crate::http) model: &'a str,
    pub(in crate::http) choices: Vec<CompletionChoice<'a>>,
    pub(in crate::http) service_tier: (),
    pub(in crate::http) system_fingerprint: &'static str,
    pub(in crate::http) usage: WholeUsage,
    pub(in crate::http) kv_transfer_params: Option<&'a Value>,
    pub(in crate::http) ec_transfer_params: (),
    pub(in crate::http) metrics: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) engine_data: Option<PrivateData<'a>>,
}

/// One answer of a whole response.
#[derive(Debug, Serialize)]
pub(in crate::http) struct CompletionChoice<'a> {
    index: usize,
    text: &'a str,
    logprobs: (),
    finish_reason: &'static str,
    stop_reason: (),
    token_ids: Option<&'a [TokenId]>,
    prompt_logprobs: (),
    prompt_token_ids: Option<&'a [TokenId]>,
    routed_experts: (),
}

/// One event of a stream.
#[derive(Debug, Serialize)]
pub(in crate::http) struct CompletionChunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<ChunkChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<StreamUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_data: Option<PrivateData<'a>>,
}

#[derive(Debug, Serialize)]
struct ChunkChoice<'a> {
    index: usize,
    text: &'a str,
    logprobs: (),
    finish_reason: Option<&'static str>,
    stop_reason: (),
    prompt_token_ids: Option<&'a [TokenId]>,
    token_ids: Option<&'a [TokenId]>,
}

/// The ids of a choice, where they were asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::http) struct ChoiceIds<'a> {
    pub(in crate::http) prompt: Option<&'a [TokenId]>,
    pub(in crate::http) generated: Option<&'a [TokenId]>,
}

// === impl CompletionChoice ===

impl<'a> CompletionChoice<'a> {
    pub(in crate::http) const fn new(index: usize, text: &'a str, ids: ChoiceIds<'a>) -> Self {
        Self {
            index,
            text,
            logprobs: (),
            finish_reason: FINISH_REASON,
            stop_reason: (),
            token_ids: ids.generated,
            prompt_logprobs: (),
            prompt_token_ids: ids.prompt,
            routed_experts: (),
        }
    }
}

// === impl CompletionChunk ===

impl<'a> CompletionChunk<'a> {
    /// A chunk without choices.
    pub(in crate::http) const fn new(id: &'a str, created: u64, model: &'a str) -> Self {
        Self {
            id,
            object: "text_completion",
            created,
            model,
            choices: Vec::new(),
            usage: None,
            system_fingerprint: None,
            engine_data: None,
        }
    }

    /// A piece of text; the last one tells why it is the last.
    pub(in crate::http) fn text(
        mut self,
        index: usize,
        text: &'a str,
        is_last: bool,
        ids: ChoiceIds<'a>,
    ) -> Self {
        self.choices = vec![ChunkChoice {
            index,
            text,
            logprobs: (),
            finish_reason: is_last.then_some(FINISH_REASON),
            stop_reason: (),
            prompt_token_ids: ids.prompt,
            token_ids: ids.generated,
        }];
        self
    }

    pub(in crate::http) fn with_usage(mut self, usage: Option<StreamUsage>) -> Self {
        self.usage = usage;
        self
    }

    pub(in crate::http) const fn with_private(mut self, report: Option<PrivateData<'a>>) -> Self {
        self.engine_data = report;
        self
    }

    pub(in crate::http) const fn with_fingerprint(mut self, fingerprint: Option<&'static str>) -> Self {
        self.system_fingerprint = fingerprint;
        self
    }
}
