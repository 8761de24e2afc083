//! Chats, texts, responses and messages: read, queue, answer in one of two forms.

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
use super::shapes::response::{IncompleteDetails, OutputMessage, ResponseBody};
use super::shapes::usage::EngineData;
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

/// `POST /v1/responses`
pub(super) async fn responses(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(app, Endpoint::Responses, headers, body).await
}

/// `POST /v1/messages`
pub(super) async fn messages(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(app, Endpoint::Messages, headers, body).await
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
    if faults.refuse_stream_options && request.has_stream_options {
        return Err(ApiError::unknown_field("stream_options"));
    }
    if faults.refuse_token_ids && request.has_return_token_ids {
        return Err(ApiError::unknown_field("return_token_ids"));
    }
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
        let misreport = app.controls.board.misreport(&faults);
        let shows_details = app.config.prompt_tokens_details;
        let usage = UsageMeter::new(&request, block_size, shows_details, &faults, misreport);
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
        (self.ends_with(token) && !self.request.include_usage).then_some(FINGERPRINT)
    }

    /// Whether nothing is generated behind this token.
    pub(super) fn ends_with(&self, token: &Token) -> bool {
        token.is_last && self.ticket.is_finished()
    }

    /// Whether a parser swallows the token of a chat that was counted last for its choice.
    pub(super) fn swallows(&self, choice: usize) -> bool {
        let every = self.faults.swallow_every;
        self.request.endpoint == Endpoint::ChatCompletions
            && every > 0
            && self.usage.generated(choice).is_multiple_of(every)
    }

    /// Id of the only item of a response.
    pub(super) fn item_id(&self) -> String {
        self.request.id.replacen("resp_", "msg_", 1)
    }

    /// A response before its first token.
    pub(super) fn begun_response(&self) -> ResponseBody<'_> {
        ResponseBody {
            id: &self.request.id,
            created_at: self.created,
            incomplete_details: None,
            instructions: (),
            metadata: (),
            model: &self.app.config.model,
            object: "response",
            output: Vec::new(),
            parallel_tool_calls: true,
            temperature: 1.0,
            tool_choice: "none",
            tools: [],
            top_p: 1.0,
            background: false,
            max_output_tokens: self.request.generation.max_tokens,
            max_tool_calls: (),
            previous_response_id: self.request.previous.as_deref(),
            prompt: (),
            reasoning: (),
            service_tier: "auto",
            status: "in_progress",
            text: (),
            top_logprobs: (),
            truncation: "disabled",
            usage: None,
            user: (),
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            kv_transfer_params: (),
            ec_transfer_params: (),
            input_messages: (),
            output_messages: (),
            engine_data: None,
        }
    }

    /// A response that has ended at its bound.
    pub(super) fn ended_response<'a>(
        &'a self,
        item: &'a str,
        text: &'a str,
        engine_data: Option<EngineData>,
    ) -> ResponseBody<'a> {
        ResponseBody {
            incomplete_details: Some(IncompleteDetails::BOUND),
            output: vec![OutputMessage::ended(item, text)],
            status: "incomplete",
            usage: Some(self.usage.responses()),
            engine_data,
            ..self.begun_response()
        }
    }

    /// Keeps the conversation of a response with its answer, to be continued.
    pub(super) fn keep(&self, text: &str) {
        if let Some(messages) = &self.request.kept {
            self.app.responses.keep(&self.request.id, messages.clone(), text);
        }
    }
}
