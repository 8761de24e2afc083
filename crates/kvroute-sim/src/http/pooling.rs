//! Embeddings, reranking and scores: answers of models that generate nothing, made of the words of the texts.
//!
//! Their texts are tokenized and no more: nothing is computed, cached or scheduled, and no statistics move.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::{ApiError, json_response};
use super::request::{check_content_type, check_model, encode};
use super::{App, unix_time};
use crate::config::Flavour;
use crate::mix::fold;

/// Numbers in a vector.
const DIMENSIONS: u64 = 8;

/// The fields of all three, in the words of all engines.
#[derive(Debug, Deserialize)]
struct Fields {
    model: Option<String>,
    input: Option<Value>,
    query: Option<String>,
    documents: Option<Vec<String>>,
    #[serde(alias = "queries")]
    text_1: Option<Value>,
    #[serde(alias = "items")]
    text_2: Option<Value>,
    top_n: Option<usize>,
}

/// `POST /v1/embeddings`
pub(super) async fn embeddings(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&app, read(&app, &headers, &body).and_then(|fields| embedded(&app, &fields)))
}

/// `POST /v1/rerank`
pub(super) async fn rerank(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&app, read(&app, &headers, &body).and_then(|fields| reranked(&app, &fields)))
}

/// `POST /v1/score`
pub(super) async fn score(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&app, read(&app, &headers, &body).and_then(|fields| scored(&app, &fields)))
}

fn respond(app: &App, result: Result<Value, ApiError>) -> Response {
    if let Some(status) = app.controls.board.of_answer().refuse_status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        return ApiError::injected(status).respond(app.config.flavour);
    }
    match result {
        Ok(body) => json_response(StatusCode::OK, body.to_string()),
        Err(error) => error.respond(app.config.flavour),
    }
}

fn read(app: &App, headers: &HeaderMap, body: &[u8]) -> Result<Fields, ApiError> {
    let fields: Fields = serde_json::from_slice(body)?;
    if app.config.flavour == Flavour::Vllm {
        check_content_type(headers)?;
        check_model(app, fields.model.as_deref())?;
    }
    Ok(fields)
}

fn embedded(app: &App, fields: &Fields) -> Result<Value, ApiError> {
    let input = fields.input.as_ref().ok_or_else(|| required("input"))?;
    let lists = tokenized(app, input)?;
    let vector = |(index, ids): (usize, &Vec<TokenId>)| json!({ "index": index, "object": "embedding", "embedding": vector_of(ids) });
    let data: Vec<_> = lists.iter().enumerate().map(vector).collect();
    Ok(listed(app, &data, total(&lists)))
}

fn reranked(app: &App, fields: &Fields) -> Result<Value, ApiError> {
    let query = fields.query.as_deref().ok_or_else(|| required("query"))?;
    let documents = fields.documents.as_deref().ok_or_else(|| required("documents"))?;
    let asked = one(app, query)?;
    let mut tokens = 0;
    let mut ranked = Vec::with_capacity(documents.len());
    for (index, document) in documents.iter().enumerate() {
        let ids = one(app, document)?;
        tokens += asked.len() + ids.len();
        ranked.push((index, document, likeness(&asked, &ids)));
    }
    ranked.sort_by(|left, right| right.2.total_cmp(&left.2).then(left.0.cmp(&right.0)));
    ranked.truncate(fields.top_n.filter(|most| *most > 0).unwrap_or(usize::MAX));
    if app.config.flavour == Flavour::Sglang {
        let results = ranked.iter().map(|(index, document, score)| {
            json!({ "score": score, "document": document, "index": index, "meta_info": null })
        });
        return Ok(results.collect());
    }
    let results = ranked.iter().map(|(index, document, score)| {
        json!({ "index": index, "document": { "text": document, "multi_modal": null }, "relevance_score": score })
    });
    Ok(json!({
        "id": format!("rerank-{}", app.unique_id()), "model": app.config.model,
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
        "results": results.collect::<Vec<_>>(),
    }))
}

fn scored(app: &App, fields: &Fields) -> Result<Value, ApiError> {
    let text = |name, text: &Option<Value>| tokenized(app, text.as_ref().ok_or_else(|| required(name))?);
    let (left, right) = (text("text_1", &fields.text_1)?, text("text_2", &fields.text_2)?);
    let pairs: Vec<_> = match left.as_slice() {
        [one] => right.iter().map(|other| (one, other)).collect(),
        many => many.iter().zip(&right).collect(),
    };
    let score = |(index, (left, right)): (usize, &(&Vec<TokenId>, &Vec<TokenId>))| json!({ "index": index, "object": "score", "score": likeness(left, right) });
    let data: Vec<_> = pairs.iter().enumerate().map(score).collect();
    Ok(listed(app, &data, pairs.iter().map(|(left, right)| left.len() + right.len()).sum()))
}

/// Both kinds of answers that are lists.
fn listed(app: &App, data: &[Value], tokens: usize) -> Value {
    json!({
        "id": format!("embd-{}", app.unique_id()), "object": "list", "created": unix_time(SystemTime::now()),
        "model": app.config.model, "data": data,
        "usage": {
            "prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0,
            "prompt_tokens_details": null,
        },
    })
}

fn required(field: &str) -> ApiError {
    ApiError::validation(format!("body.{field}"), "Field required")
}

/// A text, texts, ids or lists of ids.
fn tokenized(app: &App, input: &Value) -> Result<Vec<Vec<TokenId>>, ApiError> {
    let body = Bytes::from(json!({ "prompt": input }).to_string());
    encode(app, &ClientRequest::parse(Endpoint::Completions, body)?)
}

fn one(app: &App, text: &str) -> Result<Vec<TokenId>, ApiError> {
    Ok(tokenized(app, &Value::from(text))?.into_iter().flatten().collect())
}

fn total(lists: &[Vec<TokenId>]) -> usize {
    lists.iter().map(Vec::len).sum()
}

/// Numbers from -1 to 1 that follow from the ids alone.
fn vector_of(ids: &[TokenId]) -> Vec<f64> {
    let number = |dimension| {
        let mixed = ids.iter().fold(dimension, |state, id| fold(state, u64::from(*id)));
        f64::from((mixed >> 40) as u32) / f64::from(1 << 23) - 1.0
    };
    (0..DIMENSIONS).map(number).collect()
}

/// The share of tokens that both have, of those of the longer one.
fn likeness(left: &[TokenId], right: &[TokenId]) -> f64 {
    let common = left.iter().filter(|id| right.contains(id)).count();
    common as f64 / left.len().max(right.len()).max(1) as f64
}
