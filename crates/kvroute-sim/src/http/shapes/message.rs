//! `/v1/messages`.

use serde::Serialize;

use super::usage::{EngineData, MessageUsage};

/// Why every message ends.
pub(in crate::http) const STOP_REASON: &str = "max_tokens";

/// A whole message.
#[derive(Debug, Serialize)]
pub(in crate::http) struct MessageBody<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    content: [TextBlock<'a>; 1],
    model: &'a str,
    stop_reason: &'static str,
    usage: MessageUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_data: Option<EngineData>,
}

#[derive(Debug, Serialize)]
struct TextBlock<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
}

/// The first event of a stream.
#[derive(Debug, Serialize)]
pub(in crate::http) struct MessageStart<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: EmptyMessage<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_data: Option<EngineData>,
}

#[derive(Debug, Serialize)]
struct EmptyMessage<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    content: [(); 0],
    model: &'a str,
    stop_reason: (),
    stop_sequence: (),
    usage: MessageUsage,
}

/// A piece of text.
#[derive(Debug, Serialize)]
pub(in crate::http) struct BlockDelta<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    index: u32,
    delta: TextBlock<'a>,
}

/// The event that tells the usage, and why the message ends.
#[derive(Debug, Serialize)]
pub(in crate::http) struct MessageDelta {
    #[serde(rename = "type")]
    kind: &'static str,
    delta: Stop,
    usage: MessageUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine_data: Option<EngineData>,
}

#[derive(Debug, Serialize)]
struct Stop {
    stop_reason: &'static str,
}

// === impl MessageBody ===

impl<'a> MessageBody<'a> {
    pub(in crate::http) const fn new(
        id: &'a str,
        model: &'a str,
        text: &'a str,
        usage: MessageUsage,
        engine_data: Option<EngineData>,
    ) -> Self {
        Self {
            id,
            kind: "message",
            role: "assistant",
            content: [TextBlock { kind: "text", text }],
            model,
            stop_reason: STOP_REASON,
            usage,
            engine_data,
        }
    }
}

// === impl MessageStart ===

impl<'a> MessageStart<'a> {
    pub(in crate::http) const fn new(
        id: &'a str,
        model: &'a str,
        usage: MessageUsage,
        engine_data: Option<EngineData>,
    ) -> Self {
        let message = EmptyMessage {
            id,
            kind: "message",
            role: "assistant",
            content: [],
            model,
            stop_reason: (),
            stop_sequence: (),
            usage,
        };
        Self { kind: "message_start", message, engine_data }
    }
}

// === impl BlockDelta ===

impl<'a> BlockDelta<'a> {
    pub(in crate::http) const fn new(text: &'a str) -> Self {
        Self { kind: "content_block_delta", index: 0, delta: TextBlock { kind: "text_delta", text } }
    }
}

// === impl MessageDelta ===

impl MessageDelta {
    pub(in crate::http) const fn new(usage: MessageUsage, engine_data: Option<EngineData>) -> Self {
        Self { kind: "message_delta", delta: Stop { stop_reason: STOP_REASON }, usage, engine_data }
    }
}
