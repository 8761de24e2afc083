//! Streamed responses: one server-sent event a token.
//!
//! Tokens that are ready together leave in one write, so that an engine without delays is not slowed down by its
//! own transport.

mod events;
mod typed;

use std::io;
use std::slice;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use kvroute_openai::Endpoint;

use super::FINGERPRINT;
use super::generate::Answer;
use super::shapes::completion::ChoiceIds;
use super::shapes::usage::PrivateData;
use crate::runner::Token;

use events::EventBuffer;
use typed::TypedState;

/// A response under way.
struct AnswerStream {
    answer: Answer,
    events: EventBuffer,
    /// Choices that have begun: each tells its prompt's ids once.
    begun: Vec<bool>,
    has_roles: bool,
    typed: TypedState,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Generating,
    Breaking,
    Ended,
}

/// Starts the response; its body follows the generation.
pub(super) fn respond(answer: Answer) -> Response {
    let answer_stream = AnswerStream {
        events: EventBuffer::new(&answer.faults),
        begun: vec![false; answer.request.total_choices()],
        answer,
        has_roles: false,
        typed: TypedState::default(),
        state: State::Generating,
    };
    let body = stream::unfold(answer_stream, async |mut stream| Some((stream.next().await?, stream)));
    let mut response = Response::new(Body::from_stream(body));
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
            State::Ended => return None,
        }
        let Some(first) = self.answer.ticket.next().await else {
            self.state = State::Ended;
            return Some(Err(io::Error::other("the engine stopped")));
        };
        self.write(&first);
        while let Some(token) = self.answer.ticket.ready() {
            self.write(&token);
        }
        if self.answer.ticket.is_finished() {
            self.write_end();
            self.state = State::Ended;
        }
        if self.events.is_broken() {
            self.state = State::Breaking;
        }
        Some(Ok(self.events.take()))
    }

    fn write(&mut self, token: &Token) {
        match self.answer.request.endpoint {
            Endpoint::ChatCompletions => {
                self.answer.usage.prefilled(token);
                if !std::mem::replace(&mut self.has_roles, true) {
                    (0..self.begun.len()).for_each(|choice| self.write_role(choice));
                }
                self.answer.usage.count(token);
                self.write_chat(token);
            }
            Endpoint::Completions => {
                self.answer.usage.count(token);
                self.write_completion(token);
            }
            Endpoint::Responses | Endpoint::Messages => self.write_typed(token),
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
