//! `/v1/chat/completions`.

use kvroute_core::TokenId;
use serde::Serialize;
use serde_json::Value;

use super::usage::{PrivateData, StreamUsage, WholeUsage};
use super::{FINISH_REASON, TOOL_FINISH_REASON};

/// A whole response.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ChatResponse<'a> {
    pub(in crate::http) id: &'a str,
    pub(in crate::http) object: &'static str,
    pub(in crate::http) created: u64,
    pub(in crate::http) model: &'a str,
    pub(in crate::http) choices: Vec<ChatChoice<'a>>,
    pub(in crate::http) service_tier: (),
    pub(in crate::http) system_fingerprint: &'static str,
    pub(in crate::http) usage: WholeUsage,
    pub(in crate::http) prompt_logprobs: (),
    pub(in crate::http) prompt_token_ids: Option<&'a [TokenId]>,
    pub(in crate::http) prompt_text: (),
    pub(in crate::http) kv_transfer_params: Option<&'a Value>,
    pub(in crate::http) ec_transfer_params: (),
    pub(in crate::http) metrics: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) engine_data: Option<PrivateData<'a>>,
}

/// One answer of a whole response.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ChatChoice<'a> {
    index: usize,
    message: Message<'a>,
    logprobs: (),
    finish_reason: &'static str,
    stop_reason: (),
    token_ids: Option<&'a [TokenId]>,
    routed_experts: (),
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: (),
    annotations: (),
    audio: (),
    function_call: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Value>,
    reasoning: (),
}

/// One event of a stream.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ChatChunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<ChunkChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<StreamUsage>,
    /// The outer `None` leaves the field out.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<Option<&'a [TokenId]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_text: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_data: Option<PrivateData<'a>>,
}

#[derive(Debug, Serialize)]
struct ChunkChoice<'a> {
    index: usize,
    delta: Delta<'a>,
    logprobs: (),
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Option<&'a [TokenId]>>,
}

#[derive(Debug, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Value>,
}

// === impl ChatChoice ===

impl<'a> ChatChoice<'a> {
    pub(in crate::http) const fn new(
        index: usize,
        content: &'a str,
        token_ids: Option<&'a [TokenId]>,
    ) -> Self {
        Self {
            index,
            message: Message {
                role: "assistant",
                content: Some(content),
                refusal: (),
                annotations: (),
                audio: (),
                function_call: (),
                tool_calls: None,
                reasoning: (),
            },
            logprobs: (),
            finish_reason: FINISH_REASON,
            stop_reason: (),
            token_ids,
            routed_experts: (),
        }
    }

    /// The same answer as a call of a tool.
    pub(in crate::http) fn calling(mut self, tool_calls: Value) -> Self {
        (self.message.content, self.message.tool_calls) = (None, Some(tool_calls));
        self.finish_reason = TOOL_FINISH_REASON;
        self
    }
}

// === impl ChatChunk ===

impl<'a> ChatChunk<'a> {
    /// A chunk without choices.
    pub(in crate::http) const fn new(id: &'a str, created: u64, model: &'a str) -> Self {
        Self {
            id,
            object: "chat.completion.chunk",
            created,
            model,
            choices: Vec::new(),
            usage: None,
            prompt_token_ids: None,
            prompt_text: None,
            system_fingerprint: None,
            engine_data: None,
        }
    }

    /// The first chunk of a choice: whose turn it is, and the prompt's ids when asked for.
    pub(in crate::http) fn role(mut self, index: usize, prompt: Option<&'a [TokenId]>) -> Self {
        let delta = Delta { role: Some("assistant"), content: Some(""), tool_calls: None };
        self.choices = vec![ChunkChoice {
            index,
            delta,
            logprobs: (),
            finish_reason: None,
            stop_reason: None,
            token_ids: None,
        }];
        (self.prompt_token_ids, self.prompt_text) = (Some(prompt), Some(()));
        self
    }

    /// A piece of text, or none where a parser swallowed it; the last one tells why it is the last.
    pub(in crate::http) fn text(
        mut self,
        index: usize,
        content: Option<&'a str>,
        is_last: bool,
        token_ids: Option<&'a [TokenId]>,
    ) -> Self {
        self.choices = vec![ChunkChoice {
            index,
            delta: Delta { role: None, content, tool_calls: None },
            logprobs: (),
            finish_reason: is_last.then_some(FINISH_REASON),
            stop_reason: is_last.then_some(()),
            token_ids: Some(token_ids),
        }];
        self
    }

    /// A part of a call of a tool; the last one tells why it is the last.
    pub(in crate::http) fn call(
        mut self,
        index: usize,
        tool_calls: Value,
        is_last: bool,
        token_ids: Option<&'a [TokenId]>,
    ) -> Self {
        self.choices = vec![ChunkChoice {
            index,
            delta: Delta { role: None, content: None, tool_calls: Some(tool_calls) },
            logprobs: (),
            finish_reason: is_last.then_some(TOOL_FINISH_REASON),
            stop_reason: is_last.then_some(()),
            token_ids: Some(token_ids),
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
