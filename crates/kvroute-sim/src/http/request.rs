//! A generation request, read and checked in the order in which vLLM refuses.

mod checks;
mod fields;
mod limits;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::HeaderMap;
use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};

use super::App;
use super::conversation::{Converted, Messages};
use super::error::ApiError;
use super::handover::Handover;
use super::images::{self, SeenPrompt};
use crate::cache::CacheUse;
use crate::config::Flavour;
use crate::runner::Generation;

pub(super) use checks::{check_content_type, check_model, encode};
pub(super) use fields::EngineFields;

/// What is to be generated, and how the answer is told.
#[derive(Debug)]
pub(super) struct SimRequest {
    /// `id` of the answer, with its prefix.
    pub(super) id: String,
    /// The model that the answer names.
    pub(super) model: String,
    pub(super) endpoint: Endpoint,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    /// Usage so far in every chunk.
    pub(super) continuous_usage: bool,
    pub(super) return_token_ids: bool,
    pub(super) has_return_token_ids: bool,
    pub(super) has_stream_options: bool,
    /// llama.cpp's `timings` in every chunk.
    pub(super) timings_per_token: bool,
    /// llama.cpp's `prompt_progress` ahead of the first token.
    pub(super) return_progress: bool,
    /// Name of the first tool.
    pub(super) tool: Option<String>,
    /// The rank that was picked.
    pub(super) rank: Option<u32>,
    /// What another engine has to do with it.
    pub(super) handover: Handover,
    /// The response that it continues.
    pub(super) previous: Option<String>,
    /// The conversation of a response that is to be kept.
    pub(super) kept: Option<Messages>,
    pub(super) generation: Generation,
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
        if app.config.flavour == Flavour::Vllm {
            check_content_type(headers)?;
        }
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
        if app.config.flavour == Flavour::TrtLlm {
            fields::refuse_unknown(endpoint, &body)?;
        }
        let mut fields: EngineFields = serde_json::from_slice(&body)?;
        if endpoint == Endpoint::ChatCompletions && fields.messages.is_none() {
            return Err(ApiError::no_messages());
        }
        let client = ClientRequest::parse(endpoint, body)?;
        if app.config.flavour == Flavour::Vllm {
            check_model(app, client.model.as_deref())?;
        }
        let rank = checks::rank(app, headers, &fields)?;
        checks::values(app.config.flavour, &client, &fields)?;
        let (prompts, images) = match fields.prompt_token_ids.take() {
            Some(ids) if app.config.flavour == Flavour::TrtLlm => (vec![ids], Vec::new()),
            _ if client.has_multimodal => {
                let SeenPrompt { ids, images } = images::see(app, &client)?;
                app.images_seen.fetch_add(images.len() as u64, Ordering::Relaxed);
                (vec![ids], images)
            }
            _ => (encode(app, &client)?, Vec::new()),
        };
        limits::check_choices(app, client.choices, prompts.len())?;
        let max_tokens = limits::answer_length(app, client.max_tokens, &prompts)?;
        let id = answer_id(app, endpoint, headers, fields.id(app.config.flavour));
        checks::token_ids(app.config.flavour, &client, &fields)?;
        let handover = Handover::read(app, &fields)?;
        let generation = Generation {
            prompts: prompts.into(),
            choices: client.choices,
            max_tokens: if handover.is_prefill() { 1 } else { max_tokens },
            cache_use: CacheUse { images: images.into(), ..cache_use(app.config.flavour, &client, &fields) },
            arriving: 0,
            is_kept: handover.is_prefill(),
        };
        Ok(Self::new(app, &client, &fields, Parts { id, rank, handover, generation }))
    }

    fn new(app: &App, client: &ClientRequest, fields: &EngineFields, parts: Parts) -> Self {
        let Parts { id, rank, handover, generation } = parts;
        let continuous = fields.stream_options.as_ref().and_then(|options| options.continuous_usage_stats);
        let echoes_model = matches!(app.config.flavour, Flavour::Sglang | Flavour::TrtLlm);
        let model = client.model.clone().filter(|_| echoes_model);
        Self {
            id,
            model: model.unwrap_or_else(|| app.config.model.clone()),
            endpoint: client.endpoint,
            stream: client.stream,
            include_usage: client.include_usage,
            continuous_usage: client.include_usage && continuous.unwrap_or(false),
            return_token_ids: fields.return_token_ids.unwrap_or(false),
            has_return_token_ids: fields.return_token_ids.is_some(),
            has_stream_options: fields.stream_options.is_some(),
            timings_per_token: fields.timings_per_token.unwrap_or(false),
            return_progress: fields.return_progress.unwrap_or(false),
            tool: fields.first_tool(),
            rank,
            handover,
            previous: None,
            kept: None,
            generation,
        }
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

/// What is worked out of a request.
struct Parts {
    id: String,
    rank: Option<u32>,
    handover: Handover,
    generation: Generation,
}

fn cache_use(flavour: Flavour, client: &ClientRequest, fields: &EngineFields) -> CacheUse {
    let salt = client.cache_salt.as_deref().filter(|salt| !salt.is_empty()).map(Arc::from);
    match flavour {
        Flavour::Vllm | Flavour::TrtLlm => CacheUse { salt, ..CacheUse::default() },
        Flavour::Sglang => {
            CacheUse { salt, hidden: client.extra_key.as_deref().map(Arc::from), ..CacheUse::default() }
        }
        Flavour::LlamaCpp => CacheUse {
            slot: fields.id_slot.and_then(|slot| u32::try_from(slot).ok()),
            is_anew: fields.cache_prompt == Some(false),
            ..CacheUse::default()
        },
    }
}

fn answer_id(app: &App, endpoint: Endpoint, headers: &HeaderMap, field: Option<String>) -> String {
    match app.config.flavour {
        Flavour::Vllm => {
            let header = headers.get("x-request-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
            with_prefix(endpoint, &header.or(field).unwrap_or_else(|| app.unique_id()))
        }
        Flavour::Sglang => field.unwrap_or_else(|| app.long_id()),
        Flavour::TrtLlm => with_prefix(endpoint, &app.long_id()),
        Flavour::LlamaCpp => format!("chatcmpl-{}", app.long_id()),
    }
}

fn with_prefix(endpoint: Endpoint, id: &str) -> String {
    match endpoint {
        Endpoint::ChatCompletions | Endpoint::Messages => format!("chatcmpl-{id}"),
        Endpoint::Responses => format!("resp_{id}"),
        _ => format!("cmpl-{id}"),
    }
}
