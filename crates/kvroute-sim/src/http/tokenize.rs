//! `/tokenize` and its like: the ids that a prompt or a chat would be computed as.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::App;
use super::error::{ApiError, json_response};
use super::request::{check_content_type, check_model, encode};
use crate::config::Flavour;

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

/// llama.cpp's body.
#[derive(Debug, Deserialize)]
struct LlamaFields {
    #[serde(default)]
    content: String,
    with_pieces: Option<bool>,
}

/// `POST /tokenize`, and TensorRT-LLM's `/_internal/tokenize`
pub(super) async fn tokenize(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&app, tokens(&app, &headers, body))
}

/// `POST /detokenize`
pub(super) async fn detokenize(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&app, text(&app, &headers, &body))
}

/// `POST /tokenize` of llama.cpp
pub(super) async fn llama_tokenize(State(app): State<Arc<App>>, body: Bytes) -> Response {
    respond(&app, llama_tokens(&app, &body))
}

/// `POST /apply-template` of llama.cpp
pub(super) async fn apply_template(State(app): State<Arc<App>>, body: Bytes) -> Response {
    respond(&app, rendered(&app, body))
}

fn respond(app: &App, result: Result<Value, ApiError>) -> Response {
    match result {
        Ok(body) => json_response(StatusCode::OK, body.to_string()),
        Err(error) => error.respond(app.config.flavour),
    }
}

fn tokens(app: &App, headers: &HeaderMap, body: Bytes) -> Result<Value, ApiError> {
    let flavour = app.config.flavour;
    if flavour == Flavour::Vllm {
        check_content_type(headers)?;
    }
    let fields: TokenizeFields = serde_json::from_slice(&body)?;
    if flavour == Flavour::TrtLlm && fields.messages.is_some() {
        return Err(ApiError::unknown_field("messages"));
    }
    let endpoint = match fields.messages {
        Some(_) => Endpoint::ChatCompletions,
        None => Endpoint::Completions,
    };
    let client = ClientRequest::parse(endpoint, body)?;
    if flavour == Flavour::Vllm {
        check_model(app, client.model.as_deref())?;
    }
    let tokens = encode(app, &client)?.swap_remove(0);
    match flavour {
        Flavour::Sglang => {
            // It tells what the tokenizer takes, not what the engine does.
            let count = tokens.len();
            return Ok(json!({ "tokens": tokens, "count": count, "max_model_len": 131_072 }));
        }
        Flavour::TrtLlm => return Ok(json!({ "count": tokens.len(), "tokens": tokens })),
        Flavour::Vllm | Flavour::LlamaCpp => {}
    }
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

fn text(app: &App, headers: &HeaderMap, body: &[u8]) -> Result<Value, ApiError> {
    let is_vllm = app.config.flavour == Flavour::Vllm;
    if is_vllm {
        check_content_type(headers)?;
    }
    let fields: DetokenizeFields = serde_json::from_slice(body)?;
    if is_vllm {
        check_model(app, fields.model.as_deref())?;
    }
    let text = app.encoder.decode(&fields.tokens);
    Ok(match app.config.flavour {
        Flavour::Sglang => json!({ "text": text }),
        Flavour::LlamaCpp => json!({ "content": text }),
        Flavour::Vllm | Flavour::TrtLlm => json!({ "prompt": text }),
    })
}

fn llama_tokens(app: &App, body: &[u8]) -> Result<Value, ApiError> {
    let fields: LlamaFields = serde_json::from_slice(body)?;
    if fields.content.is_empty() {
        return Ok(json!({ "tokens": [] }));
    }
    let prompt = Bytes::from(json!({ "prompt": fields.content }).to_string());
    let tokens = encode(app, &ClientRequest::parse(Endpoint::Completions, prompt)?)?.swap_remove(0);
    if !fields.with_pieces.unwrap_or(false) {
        return Ok(json!({ "tokens": tokens }));
    }
    let piece = |id: &TokenId| json!({ "id": id, "piece": app.encoder.decode(&[*id]) });
    Ok(json!({ "tokens": tokens.iter().map(piece).collect::<Vec<_>>() }))
}

fn rendered(app: &App, body: Bytes) -> Result<Value, ApiError> {
    let client = ClientRequest::parse(Endpoint::ChatCompletions, body)?;
    let text = app.encoder.render(app.config.flavour, &client).map_err(ApiError::bad_request)?;
    Ok(json!({ "prompt": text }))
}
