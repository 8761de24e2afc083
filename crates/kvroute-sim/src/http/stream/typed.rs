//! Streams of typed events: `/v1/responses` and `/v1/messages`.

use kvroute_openai::Endpoint;
use serde_json::json;

use super::AnswerStream;
use crate::http::shapes::message::{BlockDelta, MessageDelta, MessageStart};
use crate::http::shapes::response::{OutputMessage, OutputText, ResponseEvent};
use crate::runner::Token;

/// What such a stream has said so far.
#[derive(Debug, Default)]
pub(super) struct TypedState {
    has_begun: bool,
    text: String,
    /// Number of the next event of a response.
    number: u64,
}

// === impl AnswerStream ===

impl AnswerStream {
    /// Writes one token, behind the events that begin the stream.
    pub(super) fn write_typed(&mut self, token: &Token) {
        self.answer.usage.prefilled(token);
        if !std::mem::replace(&mut self.typed.has_begun, true) {
            self.begin_typed();
        }
        self.answer.usage.count(token);
        let text = self.answer.app.words.text(token.word);
        self.typed.text.push_str(text);
        match self.answer.request.endpoint {
            Endpoint::Messages => self.events.event("content_block_delta", &BlockDelta::new(text)),
            _ => {
                let (number, item) = (self.typed.next(), self.answer.item_id());
                self.events.event("response.output_text.delta", &ResponseEvent::delta(number, &item, text));
            }
        }
    }

    /// Writes the events that end the stream.
    pub(super) fn end_typed(&mut self) {
        match self.answer.request.endpoint {
            Endpoint::Messages => self.end_message(),
            _ => self.end_response(),
        }
    }

    fn begin_typed(&mut self) {
        let private = self.answer.usage.take_private(false);
        match self.answer.request.endpoint {
            Endpoint::Messages => {
                let (id, model) = (&self.answer.request.id, &self.answer.app.config.model);
                let start = MessageStart::new(id, model, self.answer.usage.message_start(), private);
                self.events.event("message_start", &start);
                let block = json!({
                    "type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""},
                });
                self.events.event("content_block_start", &block);
            }
            _ => {
                let item = self.answer.item_id();
                let response = self.answer.begun_response();
                for kind in ["response.created", "response.in_progress"] {
                    let report = private.filter(|_| kind == "response.created");
                    let event = ResponseEvent::response(kind, self.typed.next(), &response);
                    self.events.event(kind, &event.with_private(report));
                }
                let kind = "response.output_item.added";
                let event = ResponseEvent::item(kind, self.typed.next(), OutputMessage::begun(&item));
                self.events.event(kind, &event);
                let kind = "response.content_part.added";
                let event = ResponseEvent::part(kind, self.typed.next(), &item, OutputText::new(""));
                self.events.event(kind, &event);
            }
        }
    }

    fn end_message(&mut self) {
        let private = self.answer.usage.take_private(true);
        self.events.event("content_block_stop", &json!({"type": "content_block_stop", "index": 0}));
        let delta = MessageDelta::new(self.answer.usage.message(), private);
        self.events.usage_event("message_delta", &delta);
        self.events.event("message_stop", &json!({"type": "message_stop"}));
    }

    fn end_response(&mut self) {
        let private = self.answer.usage.take_private(true);
        let (item, text) = (self.answer.item_id(), std::mem::take(&mut self.typed.text));
        let event = ResponseEvent::text(self.typed.next(), &item, &text);
        self.events.event("response.output_text.done", &event);
        let kind = "response.content_part.done";
        let event = ResponseEvent::part(kind, self.typed.next(), &item, OutputText::new(&text));
        self.events.event(kind, &event);
        let kind = "response.output_item.done";
        let event = ResponseEvent::item(kind, self.typed.next(), OutputMessage::ended(&item, &text));
        self.events.event(kind, &event);
        let response = self.answer.ended_response(&item, &text, None);
        let event = ResponseEvent::response("response.completed", self.typed.next(), &response);
        self.events.usage_event("response.completed", &event.with_private(private));
        self.answer.keep(&text);
    }
}

// === impl TypedState ===

impl TypedState {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number - 1
    }
}
