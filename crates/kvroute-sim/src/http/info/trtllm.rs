//! What TensorRT-LLM tells about itself.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::ok;
use crate::http::{App, unix_time};

/// `GET /v1/models`, without the context's length.
pub(in crate::http) async fn models(State(app): State<Arc<App>>) -> Response {
    ok(&json!({"object": "list", "data": [{
        "id": app.config.model, "object": "model", "created": unix_time(app.started),
        "owned_by": "tensorrt_llm",
    }]}))
}

/// `GET /server_info`: what an orchestrator of split serving asks for.
pub(in crate::http) async fn server_info(State(app): State<Arc<App>>) -> Response {
    let params = match &app.transfer {
        None => json!({}),
        Some(transfer) => {
            json!({ "ctx_dp_size": 1, "ctx_info_endpoint": format!("{}:{}", app.own_host(), transfer.port) })
        }
    };
    ok(&json!({ "disaggregated_params": params }))
}

/// `POST /kv_cache_events`: whoever asks takes them.
pub(in crate::http) async fn kv_cache_events(State(app): State<Arc<App>>) -> Response {
    ok(&app.polled.as_ref().map(|events| events.drain()).unwrap_or_default())
}

/// `GET /metrics`: statistics of the latest step, as JSON.
pub(in crate::http) async fn iteration_stats(State(app): State<Arc<App>>) -> Response {
    let stats = app.ranks.stats();
    ok(&json!([{
        "numActiveRequests": stats.running, "numQueuedRequests": stats.waiting,
        "kvCacheStats": {
            "maxNumBlocks": app.config.kv_blocks, "usedNumBlocks": stats.kv_blocks_held,
            "freeNumBlocks": u64::from(app.config.kv_blocks).saturating_sub(stats.kv_blocks_held),
            "tokensPerBlock": app.config.block_size.get(),
        },
    }]))
}
