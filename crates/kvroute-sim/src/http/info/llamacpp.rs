//! What llama.cpp tells about itself.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::{ok, release};
use crate::config::Flavour;
use crate::http::{App, unix_time};

/// `GET /v1/models`
pub(in crate::http) async fn models(State(app): State<Arc<App>>) -> Response {
    let (model, context) = (&app.config.model, app.config.context());
    ok(&json!({
        "models": [{
            "name": model, "model": model, "modified_at": "", "size": "", "digest": "", "type": "model",
            "description": "", "tags": [""], "capabilities": ["completion"], "parameters": "",
            "details": {
                "parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": "",
                "quantization_level": "",
            },
        }],
        "object": "list",
        "data": [{
            "id": model, "aliases": [model], "tags": [], "object": "model",
            "architecture": { "input_modalities": ["text"], "output_modalities": ["text"] },
            "created": unix_time(app.started), "owned_by": "llamacpp",
            "meta": {
                "vocab_type": 2, "n_vocab": app.encoder.vocabulary_size(), "n_ctx": context, "n_ctx_train": context,
                "n_embd": 64, "n_params": 1_000_000, "size": 2_000_000, "ftype": "BF16",
            },
        }],
    }))
}

/// `GET /health`
pub(in crate::http) async fn health() -> Response {
    ok(&json!({ "status": "ok" }))
}

/// `GET /props`: without the sampler's settings and the template's capabilities.
pub(in crate::http) async fn props(State(app): State<Arc<App>>) -> Response {
    ok(&json!({
        "default_generation_settings": { "params": {}, "n_ctx": app.config.context() },
        "total_slots": app.config.slots, "model_alias": app.config.model, "model_ftype": "BF16",
        "model_path": app.config.model, "modalities": { "vision": false, "video": false, "audio": false },
        "endpoint_slots": true, "endpoint_props": true, "endpoint_metrics": true,
        "build_info": release(Flavour::LlamaCpp), "is_sleeping": false,
    }))
}

/// `GET /slots`: how full and how busy each is, never what is in it.
pub(in crate::http) async fn slots(State(app): State<Arc<App>>) -> Response {
    let Some(engine) = app.ranks.all().first() else { return ok(&json!([])) };
    let slots = engine.slots().await;
    let told = slots.into_iter().zip(0u32..).map(|((tokens, is_busy), id)| slot(&app, id, tokens, is_busy));
    ok(&told.collect::<Vec<_>>())
}

/// `GET /lora-adapters`
pub(in crate::http) async fn lora_adapters() -> Response {
    ok(&json!([]))
}

fn slot(app: &App, id: u32, tokens: usize, is_busy: bool) -> Value {
    let mut slot = json!({
        "id": id, "n_ctx": app.config.context(), "speculative": false, "is_processing": is_busy,
    });
    if tokens > 0 {
        slot["n_prompt_tokens"] = json!(tokens);
    }
    slot
}
