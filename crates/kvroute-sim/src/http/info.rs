//! Routes that tell about the engine or change it: vLLM's, and those that several engines share.

pub(super) mod llamacpp;
pub(super) mod sglang;
pub(super) mod trtllm;

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::error::{ApiError, json_response};
use super::{App, unix_time};
use crate::config::Flavour;
use crate::faults::Faults;

/// `GET /v1/models`
pub(super) async fn models(State(app): State<Arc<App>>) -> Response {
    let (model, created) = (&app.config.model, unix_time(app.started));
    ok(&json!({"object": "list", "data": [{
        "id": model,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": model,
        "parent": null,
        "max_model_len": app.config.context(),
        "permission": [{
            "id": "modelperm-simulated",
            "object": "model_permission",
            "created": created,
            "allow_create_engine": false,
            "allow_sampling": true,
            "allow_logprobs": true,
            "allow_search_indices": false,
            "allow_view": true,
            "allow_fine_tuning": false,
            "organization": "*",
            "group": null,
            "is_blocking": false,
        }],
    }]}))
}

/// `GET /health` and its like
pub(super) async fn health() -> StatusCode {
    StatusCode::OK
}

/// `GET /version`
pub(super) async fn version(State(app): State<Arc<App>>) -> Response {
    ok(&json!({ "version": release(app.config.flavour) }))
}

/// The release whose wire formats are spoken.
const fn release(flavour: Flavour) -> &'static str {
    match flavour {
        Flavour::Vllm => "0.32.0",
        Flavour::Sglang => "0.5.23",
        Flavour::TrtLlm => "1.3.0",
        Flavour::LlamaCpp => "b11434-simulated",
    }
}

/// `GET /kv_event_sources`: by rank, with the ports as they are.
pub(super) async fn kv_event_sources(State(app): State<Arc<App>>) -> Response {
    let sources = app.sources.iter().map(|source| (source.rank.to_string(), source.told()));
    ok(&Value::Object(sources.collect()))
}

/// `GET /stats`
pub(super) async fn stats(State(app): State<Arc<App>>) -> Response {
    ok(&app.ranks.stats())
}

/// `POST /reset_prefix_cache`
pub(super) async fn reset_prefix_cache(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let mut options = query.as_deref().unwrap_or_default().split('&');
    let preempt_running = options.any(|option| option == "reset_running_requests=true");
    let success = app.ranks.reset_caches(preempt_running).await;
    ok(&json!({ "success": success }))
}

/// `GET /faults`
pub(super) async fn faults(State(app): State<Arc<App>>) -> Response {
    ok(&app.controls.board.switches())
}

/// `POST /faults`: replaces all switches; what is to happen once has happened with the answer, but for a restart.
pub(super) async fn set_faults(State(app): State<Arc<App>>, body: Bytes) -> Response {
    match apply_faults(&app, &body).await {
        Ok(faults) => ok(&faults),
        Err(error) => error.respond(app.config.flavour),
    }
}

async fn apply_faults(app: &App, body: &[u8]) -> Result<Faults, ApiError> {
    let faults: Faults = serde_json::from_slice(body)?;
    let applied = app.controls.switch_by_http(faults.clone()).await;
    applied.map_err(|problem| ApiError::bad_request(problem.to_string()))?;
    Ok(faults)
}

fn ok(body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(body) => json_response(StatusCode::OK, body),
        Err(error) => ApiError::from(error).respond(Flavour::Vllm),
    }
}
