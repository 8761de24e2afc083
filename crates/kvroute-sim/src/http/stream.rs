//! Streamed responses: one server-sent event a token.
//!
//! Tokens that are ready together leave in one write, so that an engine without delays is not slowed down by its
//! own transport.

mod events;
mod failed;
mod foreign;
mod typed;

use std::io;
use std::slice;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use kvroute_openai::Endpoint;
use serde_json::json;

use super::FINGERPRINT;
use super::dialect::{self, Dialect};
use super::generate::Answer;
use super::shapes::completion::ChoiceIds;
use super::shapes::usage::PrivateData;
use super::tools;
use crate::runner::Token;

use events::{Cut, EventBuffer};
pub(super) use failed::failed;
use typed::TypedState;

/// A response under way.
struct AnswerStream {
    answer: Answer,
    events: EventBuffer,
    /// Choices that have begun: each tells its prompt's ids once.
    begun: Vec<bool>,
    /// Whether what comes ahead of everything has been said.
    has_opened: bool,
    typed: TypedState,
    /// How it is told, where that is not vLLM's way.
    dialect: Option<&'static dyn Dialect>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Generating,
    Breaking,
    Stalling,
    Ended,
}

/// Starts the response; its body follows the generation.
pub(super) fn respond(answer: Answer) -> Response {
    let answer_stream = AnswerStream {
        events: EventBuffer::new(&answer.faults),
        begun: vec![false; answer.request.total_choices()],
        dialect: dialect::of(answer.app.config.flavour),
        answer,
        has_opened: false,
        typed: TypedState::default(),
        state: State::Generating,
    };
    let body = stream::unfold(answer_stream, async |mut stream| Some((stream.next().await?, stream)));
    of_events(Body::from_stream(body))
}

fn of_events(body: Body) -> Response {
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

// === impl AnswerStream ===

impl AnswerStream {
    /// The events that are ready, at least one.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self.state {
            State::Generating => {}
            State::Breaking => {
                // What was written is on its way before the connection breaks.
                tokio::task::yield_now().await;
                self.state = State::Ended;
                return Some(Err(io::Error::other("injected fault: the stream breaks off")));
            }
            State::Stalling => std::future::pending().await,
            State::Ended => return None,
        }
        let is_aborted = match self.answer.next().await {
            Err(_) => {
                self.state = State::Ended;
                return Some(Err(io::Error::other("the engine stopped")));
            }
            Ok(Some(first)) => {
                self.write(&first);
                while let Some(token) = self.answer.ticket.ready() {
                    self.write(&token);
                }
                false
            }
            Ok(None) => true,
        };
        if is_aborted || self.answer.ticket.is_finished() {
            if self.answer.hand_over(None).is_err() {
                self.state = State::Ended;
                return Some(Err(io::Error::other("injected fault: the prefill fails")));
            }
            self.write_end();
            self.state = State::Ended;
        }
        match self.events.cut() {
            None => {}
            Some(Cut::Break) => self.state = State::Breaking,
            Some(Cut::Stall) => self.state = State::Stalling,
            Some(Cut::End) => self.state = State::Ended,
        }
        Some(Ok(self.events.take()))
    }

    fn write(&mut self, token: &Token) {
        if let Some(dialect) = self.dialect {
            return self.write_foreign(dialect, token);
        }
        match self.answer.request.endpoint {
            Endpoint::ChatCompletions => {
                self.answer.usage.prefilled(token);
                if !std::mem::replace(&mut self.has_opened, true) {
                    (0..self.begun.len()).for_each(|choice| self.write_role(choice));
                }
                self.answer.usage.count(token);
                self.write_chat(token);
            }
            Endpoint::Responses | Endpoint::Messages => self.write_typed(token),
            _ => {
                self.answer.usage.count(token);
                self.write_completion(token);
            }
        }
    }

    fn write_role(&mut self, choice: usize) {
        let private = self.answer.usage.take_private(false);
        let Answer { request, usage, .. } = &self.answer;
        let prompt = request.return_token_ids.then(|| request.prompt_of(choice));
        let usage = request.continuous_usage.then(|| usage.so_far(choice));
        let chunk = self.answer.chat_chunk().role(choice, prompt).with_usage(usage);
        self.events.chunk(&chunk.with_private(PrivateData::new(private, None)));
    }

    fn write_chat(&mut self, token: &Token) {
        let is_swallowed = self.answer.swallows(token.choice as usize);
        if is_swallowed && !token.is_last && !self.answer.request.return_token_ids {
            return;
        }
        if self.answer.call(token.choice as usize).is_some() {
            return self.write_call(token);
        }
        let private = self.answer.usage.take_private(self.answer.ends_with(token));
        let Answer { app, request, usage, faults, .. } = &self.answer;
        let (choice, id) = (token.choice as usize, app.words.id(token.word));
        let ids = request.return_token_ids.then(|| slice::from_ref(&id));
        let private = PrivateData::new(private, faults.private_token_ids.then(|| slice::from_ref(&id)));
        let text = (!is_swallowed).then(|| app.words.text(token.word));
        let chunk = self
            .answer
            .chat_chunk()
            .text(choice, text, token.is_last, ids)
            .with_usage(request.continuous_usage.then(|| usage.so_far(choice)))
            .with_fingerprint(self.answer.fingerprint(token))
            .with_private(private);
        self.events.chunk(&chunk);
    }

    /// Writes one token of a call: ahead of the first one, what is called.
    fn write_call(&mut self, token: &Token) {
        let choice = token.choice as usize;
        let Answer { app, request, usage, .. } = &self.answer;
        let Some(call) = self.answer.call(choice) else { return };
        let is_first = !std::mem::replace(&mut self.begun[choice], true);
        if is_first {
            let begun = json!([{ "id": call.id, "type": "function", "index": 0, "function": call.begun() }]);
            let chunk = self.answer.chat_chunk().call(choice, begun, false, None);
            self.events.chunk(&chunk);
        }
        let id = app.words.id(token.word);
        let ids = request.return_token_ids.then(|| slice::from_ref(&id));
        let arguments = tools::piece(app.words.text(token.word), is_first, token.is_last);
        let more = json!([{ "index": 0, "function": { "arguments": arguments } }]);
        let chunk = self
            .answer
            .chat_chunk()
            .call(choice, more, token.is_last, ids)
            .with_usage(request.continuous_usage.then(|| usage.so_far(choice)))
            .with_fingerprint(self.answer.fingerprint(token));
        self.events.chunk(&chunk);
    }

    fn write_completion(&mut self, token: &Token) {
        let private = self.answer.usage.take_private(self.answer.ends_with(token));
        let Answer { app, request, usage, faults, .. } = &self.answer;
        let (choice, id) = (token.choice as usize, app.words.id(token.word));
        let private = PrivateData::new(private, faults.private_token_ids.then(|| slice::from_ref(&id)));
        let mut ids = ChoiceIds::default();
        if request.return_token_ids {
            ids.generated = Some(slice::from_ref(&id));
            ids.prompt = (!self.begun[choice]).then(|| request.prompt_of(choice));
        }
        let chunk = self
            .answer
            .completion_chunk()
            .text(choice, app.words.text(token.word), token.is_last, ids)
            .with_usage(request.continuous_usage.then(|| usage.so_far(choice)))
            .with_fingerprint(self.answer.fingerprint(token))
            .with_private(private);
        self.events.chunk(&chunk);
        self.begun[choice] = true;
    }

    /// The usage chunk, where it was asked for, and the end mark; or the last events.
    fn write_end(&mut self) {
        if let Some(dialect) = self.dialect {
            return self.end_foreign(dialect);
        }
        if !self.answer.request.endpoint.has_stream_options() {
            return self.end_typed();
        }
        if self.answer.request.include_usage {
            let usage = Some(self.answer.usage.stream());
            match self.answer.request.endpoint {
                Endpoint::ChatCompletions => {
                    let chunk =
                        self.answer.chat_chunk().with_usage(usage).with_fingerprint(Some(FINGERPRINT));
                    self.events.usage_chunk(&chunk);
                }
                _ => {
                    let chunk =
                        self.answer.completion_chunk().with_usage(usage).with_fingerprint(Some(FINGERPRINT));
                    self.events.usage_chunk(&chunk);
                }
            }
        }
        self.events.done();
    }
}
