//! `/v1/responses`.

use serde::Serialize;

use super::usage::{EngineData, ResponsesUsage};

/// A response, whole or as the events of its stream show it.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ResponseBody<'a> {
    pub(in crate::http) id: &'a str,
    pub(in crate::http) created_at: u64,
    pub(in crate::http) incomplete_details: Option<IncompleteDetails>,
    pub(in crate::http) instructions: (),
    pub(in crate::http) metadata: (),
    pub(in crate::http) model: &'a str,
    pub(in crate::http) object: &'static str,
    pub(in crate::http) output: Vec<OutputMessage<'a>>,
    pub(in crate::http) parallel_tool_calls: bool,
    pub(in crate::http) temperature: f64,
    pub(in crate::http) tool_choice: &'static str,
    pub(in crate::http) tools: [(); 0],
    pub(in crate::http) top_p: f64,
    pub(in crate::http) background: bool,
    pub(in crate::http) max_output_tokens: u64,
    pub(in crate::http) max_tool_calls: (),
    pub(in crate::http) previous_response_id: Option<&'a str>,
    pub(in crate::http) prompt: (),
    pub(in crate::http) reasoning: (),
    pub(in crate::http) service_tier: &'static str,
    pub(in crate::http) status: &'static str,
    pub(in crate::http) text: (),
    pub(in crate::http) top_logprobs: (),
    pub(in crate::http) truncation: &'static str,
    pub(in crate::http) usage: Option<ResponsesUsage>,
    pub(in crate::http) user: (),
    pub(in crate::http) presence_penalty: f64,
    pub(in crate::http) frequency_penalty: f64,
    pub(in crate::http) kv_transfer_params: (),
    pub(in crate::http) ec_transfer_params: (),
    pub(in crate::http) input_messages: (),
    pub(in crate::http) output_messages: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::http) engine_data: Option<EngineData>,
}

/// Why a response is incomplete.
#[derive(Clone, Copy, Debug, Serialize)]
pub(in crate::http) struct IncompleteDetails {
    reason: &'static str,
}

/// The one item of the output.
#[derive(Debug, Serialize)]
pub(in crate::http) struct OutputMessage<'a> {
    id: &'a str,
    content: Vec<OutputText<'a>>,
    role: &'static str,
    status: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    phase: (),
}

/// Its text.
#[derive(Debug, Serialize)]
pub(in crate::http) struct OutputText<'a> {
    annotations: [(); 0],
    text: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    logprobs: (),
}

/// One event of a stream. What an event does not have is left out.
#[derive(Debug, Serialize)]
pub(in crate::http) struct ResponseEvent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<OutputMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<OutputText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<&'a ResponseBody<'a>>,
    sequence_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(rename = "type")]
    pub(in crate::http) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_data: Option<EngineData>,
}

// === impl IncompleteDetails ===

impl IncompleteDetails {
    /// Every answer ends at its bound.
    pub(in crate::http) const BOUND: Self = Self { reason: "max_output_tokens" };
}

// === impl OutputMessage ===

impl<'a> OutputMessage<'a> {
    /// One without a text yet.
    pub(in crate::http) const fn begun(id: &'a str) -> Self {
        let (role, kind) = ("assistant", "message");
        Self { id, content: Vec::new(), role, status: "in_progress", kind, phase: () }
    }

    /// One with its whole text.
    pub(in crate::http) fn ended(id: &'a str, text: &'a str) -> Self {
        Self { content: vec![OutputText::new(text)], status: "completed", ..Self::begun(id) }
    }
}

// === impl OutputText ===

impl<'a> OutputText<'a> {
    pub(in crate::http) const fn new(text: &'a str) -> Self {
        Self { annotations: [], text, kind: "output_text", logprobs: () }
    }
}

// === impl ResponseEvent ===

impl<'a> ResponseEvent<'a> {
    const fn of(kind: &'static str, sequence_number: u64) -> Self {
        Self {
            content_index: None,
            delta: None,
            item: None,
            item_id: None,
            output_index: None,
            part: None,
            response: None,
            sequence_number,
            text: None,
            kind,
            engine_data: None,
        }
    }

    /// About the whole response.
    pub(in crate::http) const fn response(
        kind: &'static str,
        number: u64,
        response: &'a ResponseBody<'a>,
    ) -> Self {
        let mut event = Self::of(kind, number);
        event.response = Some(response);
        event
    }

    /// About its only item.
    pub(in crate::http) fn item(kind: &'static str, number: u64, item: OutputMessage<'a>) -> Self {
        Self { item: Some(item), output_index: Some(0), ..Self::of(kind, number) }
    }

    /// About the only part of it.
    pub(in crate::http) fn part(
        kind: &'static str,
        number: u64,
        item: &'a str,
        part: OutputText<'a>,
    ) -> Self {
        Self { part: Some(part), ..Self::of_item(kind, number, item) }
    }

    /// A piece of its text.
    pub(in crate::http) fn delta(number: u64, item: &'a str, delta: &'a str) -> Self {
        Self { delta: Some(delta), ..Self::of_item("response.output_text.delta", number, item) }
    }

    /// All of its text.
    pub(in crate::http) fn text(number: u64, item: &'a str, text: &'a str) -> Self {
        Self { text: Some(text), ..Self::of_item("response.output_text.done", number, item) }
    }

    pub(in crate::http) const fn with_private(mut self, report: Option<EngineData>) -> Self {
        self.engine_data = report;
        self
    }

    fn of_item(kind: &'static str, number: u64, item: &'a str) -> Self {
        Self { content_index: Some(0), item_id: Some(item), output_index: Some(0), ..Self::of(kind, number) }
    }
}
