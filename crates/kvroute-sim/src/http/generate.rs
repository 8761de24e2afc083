//! Chat and text completions: read, queue, answer in one of two forms.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use kvroute_openai::Endpoint;

use super::error::ApiError;
use super::request::SimRequest;
use super::shapes::chat::ChatChunk;
use super::shapes::completion::CompletionChunk;
use super::usage::UsageMeter;
use super::{App, FINGERPRINT, stream, unix_time, whole};
use crate::faults::Faults;
use crate::runner::{Ticket, Token};

/// A request that is being answered.
pub(super) struct Answer {
    pub(super) app: Arc<App>,
    pub(super) request: SimRequest,
    /// Unix time in seconds.
    pub(super) created: u64,
    pub(super) ticket: Ticket,
    pub(super) usage: UsageMeter,
    pub(super) faults: Faults,
}

/// `POST /v1/chat/completions`
pub(super) async fn chat(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(app, Endpoint::ChatCompletions, headers, body).await
}

/// `POST /v1/completions`
pub(super) async fn completions(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(app, Endpoint::Completions, headers, body).await
}

async fn respond(app: Arc<App>, endpoint: Endpoint, headers: HeaderMap, body: Bytes) -> Response {
    match generate(app, endpoint, &headers, body).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn generate(
    app: Arc<App>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let faults = app.controls.board.switches();
    if let Some(status) = faults.refuse_status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        return Err(ApiError::injected(status));
    }
    let request = SimRequest::read(&app, endpoint, headers, body)?;
    faults.before_head().await;
    let answer = Answer::start(app, request, faults);
    match answer.request.stream {
        true => Ok(stream::respond(answer)),
        false => whole::respond(answer).await,
    }
}

// === impl Answer ===

impl Answer {
    fn start(app: Arc<App>, request: SimRequest, faults: Faults) -> Self {
        let block_size = u64::from(app.config.block_size.get());
        let usage = UsageMeter::new(&request, block_size, app.config.prompt_tokens_details, &faults);
        let ticket = app.engine.generate(request.generation.clone());
        let created = unix_time(std::time::SystemTime::now());
        Self { app, request, created, ticket, usage, faults }
    }

    /// A chat chunk without choices.
    pub(super) fn chat_chunk(&self) -> ChatChunk<'_> {
        ChatChunk::new(&self.request.id, self.created, &self.app.config.model)
    }

    /// A text chunk without choices.
    pub(super) fn completion_chunk(&self) -> CompletionChunk<'_> {
        CompletionChunk::new(&self.request.id, self.created, &self.app.config.model)
    }

    /// The last chunk of all carries it: the usage chunk, or the last text where there is none.
    pub(super) fn fingerprint(&self, token: &Token) -> Option<&'static str> {
        let ends_answer = token.is_last && self.ticket.is_finished();
        (ends_answer && !self.request.include_usage).then_some(FINGERPRINT)
    }
}
