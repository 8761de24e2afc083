//! Chats, texts, responses and messages: read, queue, answer in one of two forms.
//!
//! A leg of a request that two engines share fetches its KV first, or hands it over at the end.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::Endpoint;
use serde_json::Value;
use tokio::time::Instant;

use super::abort::Abort;
use super::error::ApiError;
use super::handover::Prefilled;
use super::request::SimRequest;
use super::shapes::chat::ChatChunk;
use super::shapes::completion::CompletionChunk;
use super::shapes::response::{IncompleteDetails, OutputMessage, ResponseBody};
use super::shapes::usage::EngineData;
use super::shapes::{FINISH_REASON, TOOL_FINISH_REASON};
use super::tools::ToolCall;
use super::usage::UsageMeter;
use super::{App, FINGERPRINT, handover, stream, unix_time, whole};
use crate::config::Flavour;
use crate::faults::Faults;
use crate::runner::{Ticket, Token};
use crate::transfer::Offer;

/// A request that is being answered.
pub(super) struct Answer {
    pub(super) app: Arc<App>,
    pub(super) request: SimRequest,
    /// Unix time in seconds.
    pub(super) created: u64,
    pub(super) ticket: Ticket,
    pub(super) usage: UsageMeter,
    pub(super) faults: Faults,
    /// The KV that a prefill leg promises, until it is handed over.
    pub(super) offer: Option<Offer>,
    /// What the other leg must be told.
    pub(super) handed: Option<Value>,
    pub(super) abort: Abort,
    started: Instant,
    prefilled: Option<Instant>,
}

/// What is promised of a request before it begins.
struct Promises {
    offer: Option<Offer>,
    abort: Abort,
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
    let flavour = app.config.flavour;
    match generate(Arc::clone(&app), endpoint, &headers, body).await {
        Ok(response) => response,
        Err(error) if error.is_about_tokens() && dies_of_tokens(&app) => {
            app.controls.die();
            // The connection is cut without a byte.
            std::future::pending().await
        }
        Err(error) => error.respond(flavour),
    }
}

/// SGLang's scheduler looks up what is not in its table, and takes the whole server with it.
fn dies_of_tokens(app: &App) -> bool {
    app.config.flavour == Flavour::Sglang && !app.controls.board.switches().survives_bad_tokens
}

async fn generate(
    app: Arc<App>,
    endpoint: Endpoint,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    let faults = app.controls.board.of_answer();
    if let Some(status) = faults.refuse_status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        return Err(ApiError::injected(status));
    }
    let mut request = SimRequest::read(&app, endpoint, headers, body)?;
    if faults.refuse_stream_options && request.has_stream_options {
        return Err(ApiError::unknown_field("stream_options"));
    }
    if faults.refuse_token_ids && request.has_return_token_ids {
        return Err(ApiError::unknown_field("return_token_ids"));
    }
    let offer = Answer::offer(&app, &request);
    let abort = app.aborts.register(&request.id);
    faults.before_head().await;
    let fetched = tokio::select! {
        biased;
        fetched = handover::fetch(&app, &mut request, &faults) => fetched,
        () = abort.aborted() => Err(ApiError::no_transfer("the request was aborted")),
    };
    match fetched {
        Ok(()) => {}
        Err(error) if app.config.flavour == Flavour::Sglang && request.stream => {
            return Ok(stream::failed(&app, &request, &error));
        }
        Err(error) => return Err(error),
    }
    let answer = Answer::start(app, request, faults, Promises { offer, abort });
    match answer.request.stream {
        true => Ok(stream::respond(answer)),
        false => whole::respond(answer).await,
    }
}

// === impl Answer ===

impl Answer {
    /// Promises the KV of a prefill leg, before anything can go wrong with it.
    fn offer(app: &App, request: &SimRequest) -> Option<Offer> {
        let transfer = app.transfer.as_ref()?;
        Some(transfer.desk.promise(request.handover.key()?.to_owned()))
    }

    fn start(app: Arc<App>, request: SimRequest, faults: Faults, promises: Promises) -> Self {
        let Promises { offer, abort } = promises;
        let misreport = app.controls.board.misreport(&faults);
        let usage = UsageMeter::new(&request, &app.config, &faults, misreport);
        let ticket = app.ranks.of(request.rank).generate(request.generation.clone());
        let created = unix_time(std::time::SystemTime::now());
        let (started, prefilled) = (Instant::now(), None);
        Self { app, request, created, ticket, usage, faults, offer, handed: None, abort, started, prefilled }
    }

    /// The next token; `None` when the request was aborted.
    pub(super) async fn next(&mut self) -> Result<Option<Token>, ApiError> {
        tokio::select! {
            biased;
            token = self.ticket.next() => {
                self.prefilled.get_or_insert_with(Instant::now);
                token.map(Some).ok_or_else(ApiError::stopped)
            }
            () = self.abort.aborted() => Ok(None),
        }
    }

    /// Hands over what a prefill leg computed. The first token is what the prompt led to.
    pub(super) fn hand_over(&mut self, first_token: Option<TokenId>) -> Result<(), ApiError> {
        let Some(offer) = self.offer.take() else { return Ok(()) };
        // Given back in any case but one.
        let room = self.ticket.kept_room();
        if self.is_cut_short() {
            return Ok(());
        }
        if self.faults.fail_prefill {
            return Err(ApiError::no_kv("the simulated engine was told to fail prefill legs"));
        }
        let (prompt, key) = (self.request.prompt_of(0), offer.key().to_owned());
        let cached_tokens = self.usage.figures().cached.map_or(0, |cached| cached.count());
        let prefilled = Prefilled { first_token, cached_tokens };
        self.handed = Some(handover::handed(&self.app, &key, prompt, prefilled));
        offer.keep(prompt, cached_tokens, room);
        self.app.lease(key, self.faults.expire_leases);
        Ok(())
    }

    /// Why an answer ends.
    pub(super) fn finish_reason(&self) -> &'static str {
        match (self.is_cut_short(), self.calls()) {
            (true, _) => "abort",
            (false, true) => TOOL_FINISH_REASON,
            (false, false) => FINISH_REASON,
        }
    }

    /// Whether it was aborted before its end.
    pub(super) fn is_cut_short(&self) -> bool {
        self.abort.is_aborted() && !self.ticket.is_finished()
    }

    /// The call that a choice makes, where tools are called.
    pub(super) fn call(&self, choice: usize) -> Option<ToolCall<'_>> {
        let name = self.request.tool.as_deref().filter(|_| self.calls())?;
        let digits = &self.request.id[self.request.id.rfind('-').map_or(0, |dash| dash + 1)..];
        let id = match self.app.config.flavour {
            Flavour::Vllm | Flavour::TrtLlm => format!("chatcmpl-tool-{digits}{choice:x}"),
            Flavour::Sglang => format!("call_{digits}{choice:x}"),
            Flavour::LlamaCpp => format!("{digits}{choice:x}"),
        };
        Some(ToolCall { id, name })
    }

    /// Milliseconds until the first token.
    pub(super) fn prompt_ms(&self) -> f64 {
        let end = self.prefilled.unwrap_or_else(Instant::now);
        (end - self.started).as_secs_f64() * 1000.0
    }

    /// Milliseconds since then.
    pub(super) fn predicted_ms(&self) -> f64 {
        self.prefilled.map_or(0.0, |first| first.elapsed().as_secs_f64() * 1000.0)
    }

    fn calls(&self) -> bool {
        let is_chat = self.request.endpoint == Endpoint::ChatCompletions;
        is_chat && self.faults.tool_calls && self.request.tool.is_some()
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
