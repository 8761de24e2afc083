//! `/tokenize` and `/detokenize`: the ids that a prompt or a chat would be computed as.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::App;
use super::error::{ApiError, json_response};
use super::request::{check_content_type, check_model, encode};

#[derive(Debug, Deserialize)]
struct TokenizeFields {
    messages: Option<IgnoredAny>,
    return_token_strs: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct DetokenizeFields {
    model: Option<String>,
    tokens: Vec<TokenId>,
}

/// `POST /tokenize`
pub(super) async fn tokenize(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(tokens(&app, &headers, body))
}

/// `POST /detokenize`
pub(super) async fn detokenize(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(text(&app, &headers, &body))
}

fn respond(result: Result<serde_json::Value, ApiError>) -> Response {
    match result {
        Ok(body) => json_response(StatusCode::OK, body.to_string()),
        Err(error) => error.into_response(),
    }
}

fn tokens(app: &App, headers: &HeaderMap, body: Bytes) -> Result<serde_json::Value, ApiError> {
    check_content_type(headers)?;
    let fields: TokenizeFields = serde_json::from_slice(&body)?;
    let endpoint = match fields.messages {
        Some(_) => Endpoint::ChatCompletions,
        None => Endpoint::Completions,
    };
    let client = ClientRequest::parse(endpoint, body)?;
    check_model(app, client.model.as_deref())?;
    let tokens = encode(app, &client)?.swap_remove(0);
    let texts = fields
        .return_token_strs
        .unwrap_or(false)
        .then(|| tokens.iter().map(|token| app.encoder.decode(&[*token])).collect::<Vec<_>>());
    Ok(json!({
        "count": tokens.len(),
        "max_model_len": app.config.context(),
        "tokens": tokens,
        "token_strs": texts,
    }))
}

fn text(app: &App, headers: &HeaderMap, body: &[u8]) -> Result<serde_json::Value, ApiError> {
    check_content_type(headers)?;
    let fields: DetokenizeFields = serde_json::from_slice(body)?;
    check_model(app, fields.model.as_deref())?;
    Ok(json!({ "prompt": app.encoder.decode(&fields.tokens) }))
}
