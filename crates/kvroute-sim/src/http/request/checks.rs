//! What is refused because of its values.

use axum::http::{HeaderMap, header};
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};

use super::EngineFields;
use crate::config::Flavour;
use crate::http::App;
use crate::http::error::ApiError;

/// Header by which both engines with ranks are steered.
const RANK_HEADER: &str = "x-data-parallel-rank";

/// Tokenizes every prompt of a request; none may be empty or hold ids that do not exist.
pub(in crate::http) fn encode(app: &App, client: &ClientRequest) -> Result<Vec<Vec<TokenId>>, ApiError> {
    let prompts = app.encoder.encode_for(app.config.flavour, client).map_err(ApiError::bad_request)?;
    if prompts.iter().any(Vec::is_empty) {
        return Err(ApiError::parameter("prompt", None, "The prompt must not be empty."));
    }
    let vocabulary = app.encoder.vocabulary_size();
    match prompts.iter().flatten().find(|token| **token >= vocabulary) {
        Some(token) => Err(ApiError::bad_token(*token)),
        None => Ok(prompts),
    }
}

/// Only JSON is read.
pub(in crate::http) fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
    match content_type {
        Some(value) if value.starts_with(b"application/json") => Ok(()),
        _ => Err(ApiError::validation(None, "Unsupported Media Type: Only 'application/json' is allowed")),
    }
}

/// A request without a model takes the one that is served.
pub(in crate::http) fn check_model(app: &App, asked: Option<&str>) -> Result<(), ApiError> {
    match asked {
        Some(asked) if asked != app.config.model => Err(ApiError::unknown_model(asked, &app.config.model)),
        _ => Ok(()),
    }
}

/// The rank that is picked, where there are such; a header that is no number is ignored.
pub(super) fn rank(app: &App, headers: &HeaderMap, fields: &EngineFields) -> Result<Option<u32>, ApiError> {
    if !app.config.flavour.publishes() {
        return Ok(None);
    }
    let header = headers.get(RANK_HEADER).and_then(|value| value.to_str().ok());
    let header = header.and_then(|value| value.trim().parse::<i64>().ok());
    let asked = match app.config.flavour {
        Flavour::Sglang => header.or(fields.routed_dp_rank),
        _ => header,
    };
    let Some(rank) = asked else { return Ok(None) };
    let known = u32::try_from(rank).ok().filter(|rank| *rank < app.config.dp_ranks);
    known.map(Some).ok_or_else(|| ApiError::rank(rank, app.config.dp_ranks))
}

pub(super) fn values(
    flavour: Flavour,
    client: &ClientRequest,
    fields: &EngineFields,
) -> Result<(), ApiError> {
    if flavour == Flavour::Vllm && client.cache_salt.as_deref() == Some("") {
        let message = "Parameter 'cache_salt' must be a non-empty string if provided.";
        return Err(ApiError::parameter("cache_salt", None, message));
    }
    if let Some(temperature) = fields.temperature.filter(|temperature| *temperature < 0.0) {
        let message = format!("temperature must be non-negative, got {temperature:?}.");
        return Err(ApiError::parameter("temperature", Some(format!("{temperature:?}")), message));
    }
    if let Some(bound) = fields.max_completion_tokens.or(fields.max_tokens)
        && bound < 0.0
        && flavour != Flavour::LlamaCpp
    {
        let message = format!("max_tokens must be at least 1, got {bound}.");
        return Err(ApiError::parameter("max_tokens", Some(bound.to_string()), message));
    }
    match client.has_multimodal && flavour != Flavour::Vllm {
        true => Err(ApiError::bad_request("At most 0 image(s) may be provided in one prompt.")),
        false => Ok(()),
    }
}

/// SGLang gives no token ids in streams of chats.
pub(super) fn token_ids(
    flavour: Flavour,
    client: &ClientRequest,
    fields: &EngineFields,
) -> Result<(), ApiError> {
    let is_chat_stream = client.endpoint == Endpoint::ChatCompletions && client.stream;
    match flavour == Flavour::Sglang && is_chat_stream && fields.return_token_ids == Some(true) {
        true => Err(ApiError::bad_request(
            "return_token_ids is not supported with streaming on /v1/chat/completions.",
        )),
        false => Ok(()),
    }
}
