//! A generation request, read and checked in the order in which vLLM refuses.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::App;
use super::conversation::{Converted, Messages};
use super::error::ApiError;
use crate::runner::Generation;

/// Tokens of an answer when the request does not say.
const DEFAULT_MAX_TOKENS: u64 = 16;

/// Most answers to one request, as vLLM has it by default for each prompt. Here it holds for all prompts together:
/// it bounds what one request makes the engine allocate.
const MAX_CHOICES: usize = 16_384;

/// What is to be generated, and how the answer is told.
#[derive(Debug)]
pub(super) struct SimRequest {
    /// `id` of the answer, with its prefix.
    pub(super) id: String,
    pub(super) endpoint: Endpoint,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Usage so far in every chunk.
    pub(super) continuous_usage: bool,
    pub(super) return_token_ids: bool,
    pub(super) has_return_token_ids: bool,
    pub(super) has_stream_options: bool,
    /// The response that it continues.
    pub(super) previous: Option<String>,
    /// The conversation of a response that is to be kept.
    pub(super) kept: Option<Messages>,
    pub(super) generation: Generation,
}

/// Fields that only the engine reads.
#[derive(Debug, Default, Deserialize)]
struct EngineFields {
    request_id: Option<String>,
    return_token_ids: Option<bool>,
    stream_options: Option<StreamOptions>,
    temperature: Option<f64>,
    messages: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
struct StreamOptions {
    continuous_usage_stats: Option<bool>,
}

// === impl SimRequest ===

impl SimRequest {
    /// Reads and tokenizes a request.
    pub(super) fn read(
        app: &App,
        endpoint: Endpoint,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Self, ApiError> {
        check_content_type(headers)?;
        if body.is_empty() {
            return Err(ApiError::validation(String::from("body"), "Field required"));
        }
        if !endpoint.has_stream_options() {
            let converted = Converted::read(endpoint, &body, &app.responses)?;
            let chat = Self::read_chat(app, Endpoint::ChatCompletions, headers, converted.chat)?;
            let id = answer_id(app, endpoint, headers, None);
            return Ok(Self { id, endpoint, previous: converted.previous, kept: converted.kept, ..chat });
        }
        Self::read_chat(app, endpoint, headers, body)
    }

    /// Reads a chat or texts.
    fn read_chat(app: &App, endpoint: Endpoint, headers: &HeaderMap, body: Bytes) -> Result<Self, ApiError> {
        let fields: EngineFields = serde_json::from_slice(&body)?;
        if endpoint == Endpoint::ChatCompletions && fields.messages.is_none() {
            return Err(ApiError::validation(String::from("body.messages"), "Field required"));
        }
        let client = ClientRequest::parse(endpoint, body)?;
        check_model(app, client.model.as_deref())?;
        check_rank(headers)?;
        check_values(&client, &fields)?;
        let prompts = encode(app, &client)?;
        check_choices(client.choices, prompts.len())?;
        let max_tokens = answer_length(app, client.max_tokens, &prompts)?;
        let has_stream_options = fields.stream_options.is_some();
        let options = fields.stream_options.unwrap_or_default();
        Ok(Self {
            id: answer_id(app, endpoint, headers, fields.request_id),
            endpoint,
            stream: client.stream,
            include_usage: client.include_usage,
            continuous_usage: client.include_usage && options.continuous_usage_stats.unwrap_or(false),
            return_token_ids: fields.return_token_ids.unwrap_or(false),
            has_return_token_ids: fields.return_token_ids.is_some(),
            has_stream_options,
            previous: None,
            kept: None,
            generation: Generation {
                prompts: prompts.into(),
                choices: client.choices,
                max_tokens,
                salt: client.cache_salt.map(Arc::from),
            },
        })
    }

    /// Answers to all prompts together.
    pub(super) fn total_choices(&self) -> usize {
        self.generation.prompts.len() * self.generation.choices as usize
    }

    /// The prompt that an answer continues.
    pub(super) fn prompt_of(&self, choice: usize) -> &[TokenId] {
        &self.generation.prompts[choice / self.generation.choices as usize]
    }
}

/// Tokenizes every prompt of a request; none may be empty or hold ids that do not exist.
pub(super) fn encode(app: &App, client: &ClientRequest) -> Result<Vec<Vec<TokenId>>, ApiError> {
    let prompts = app.encoder.encode(client).map_err(ApiError::bad_request)?;
    if prompts.iter().any(Vec::is_empty) {
        return Err(ApiError::parameter("prompt", None, "The prompt must not be empty."));
    }
    let vocabulary = app.encoder.vocabulary_size();
    match prompts.iter().flatten().find(|token| **token >= vocabulary) {
        Some(token) => Err(ApiError::bad_request(format!("Token id {token} is out of vocabulary"))),
        None => Ok(prompts),
    }
}

/// Only JSON is read.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
    match content_type {
        Some(value) if value.starts_with(b"application/json") => Ok(()),
        _ => Err(ApiError::validation(None, "Unsupported Media Type: Only 'application/json' is allowed")),
    }
}

/// A request without a model takes the one that is served.
pub(super) fn check_model(app: &App, asked: Option<&str>) -> Result<(), ApiError> {
    match asked {
        Some(asked) if asked != app.config.model => Err(ApiError::unknown_model(asked, &app.config.model)),
        _ => Ok(()),
    }
}

/// The engine has rank 0 alone; a header that is no number is ignored.
fn check_rank(headers: &HeaderMap) -> Result<(), ApiError> {
    let value = headers.get("x-data-parallel-rank").and_then(|value| value.to_str().ok());
    match value.and_then(|value| value.trim().parse::<i64>().ok()) {
        None | Some(0) => Ok(()),
        Some(rank) => {
            Err(ApiError::bad_request(format!("data_parallel_rank {rank} is out of range [0, 1).")))
        }
    }
}

fn check_values(client: &ClientRequest, fields: &EngineFields) -> Result<(), ApiError> {
    if client.cache_salt.as_deref() == Some("") {
        let message = "Parameter 'cache_salt' must be a non-empty string if provided.";
        return Err(ApiError::parameter("cache_salt", None, message));
    }
    if let Some(temperature) = fields.temperature.filter(|temperature| *temperature < 0.0) {
        let message = format!("temperature must be non-negative, got {temperature:?}.");
        return Err(ApiError::parameter("temperature", Some(format!("{temperature:?}")), message));
    }
    match client.has_multimodal {
        true => Err(ApiError::bad_request("At most 0 image(s) may be provided in one prompt.")),
        false => Ok(()),
    }
}

/// One answer to each prompt is always served: who sends the prompts pays for them.
fn check_choices(asked: u32, prompts: usize) -> Result<(), ApiError> {
    let limit = (MAX_CHOICES / prompts.max(1)).max(1);
    if asked as usize <= limit {
        return Ok(());
    }
    let message = match prompts {
        ..=1 => format!("n must be at most {limit}, got {asked}."),
        _ => format!("n must be at most {limit} for {prompts} prompts, got {asked}."),
    };
    Err(ApiError::parameter("n", Some(asked.to_string()), message))
}

fn answer_length(app: &App, asked: Option<u64>, prompts: &[Vec<TokenId>]) -> Result<u64, ApiError> {
    let limit = app.config.context();
    let longest = prompts.iter().map(Vec::len).max().unwrap_or_default() as u64;
    if asked == Some(0) {
        return Err(ApiError::parameter(
            "max_tokens",
            Some(String::from("0")),
            "max_tokens must be at least 1, got 0.",
        ));
    }
    if let Some(asked) = asked.filter(|asked| *asked > limit) {
        let message = format!(
            "max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens."
        );
        return Err(ApiError::parameter("max_tokens", Some(asked.to_string()), message));
    }
    if longest >= limit {
        let message = format!(
            "This model's maximum context length is {limit} tokens. However, your prompt contains at least \
             {longest} input tokens, which exceeds this limit even without any output tokens. Please reduce the \
             length of the input prompt."
        );
        return Err(ApiError::parameter("input_tokens", Some(longest.to_string()), message));
    }
    match asked {
        None => Ok(DEFAULT_MAX_TOKENS.min(limit - longest)),
        Some(asked) if longest + asked <= limit => Ok(asked),
        Some(asked) => {
            let message = format!(
                "This model's maximum context length is {limit} tokens. However, you requested {asked} output tokens \
                 and your prompt contains at least {longest} input tokens, for a total of at least {} tokens. Please \
                 reduce the length of the input prompt or the number of requested output tokens.",
                longest + asked
            );
            Err(ApiError::parameter("input_tokens", Some(longest.to_string()), message))
        }
    }
}

fn answer_id(app: &App, endpoint: Endpoint, headers: &HeaderMap, field: Option<String>) -> String {
    let header = headers.get("x-request-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let id = header.or(field).unwrap_or_else(|| app.unique_id());
    match endpoint {
        Endpoint::ChatCompletions | Endpoint::Messages => format!("chatcmpl-{id}"),
        Endpoint::Completions => format!("cmpl-{id}"),
        Endpoint::Responses => format!("resp_{id}"),
    }
}
