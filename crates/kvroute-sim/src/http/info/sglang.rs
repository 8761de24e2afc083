//! What SGLang tells about itself.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use kvroute_core::WorkerRole;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ok, release};
use crate::config::Flavour;
use crate::events::TOPIC;
use crate::http::error::ApiError;
use crate::http::{App, unix_time};
use crate::stats::EngineStats;

/// Port of the bootstrap server where nothing else is set.
const BOOTSTRAP_PORT: u16 = 8998;
const FLUSHED: &str = "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting \
                       requests, the operation will not be performed.)\n";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AbortFields {
    rid: String,
    abort_all: bool,
}

/// `GET /v1/models`
pub(in crate::http) async fn models(State(app): State<Arc<App>>) -> Response {
    let model = &app.config.model;
    ok(&json!({"object": "list", "data": [{
        "id": model, "object": "model", "created": unix_time(app.started), "owned_by": "sglang", "root": model,
        "parent": null, "max_model_len": app.config.context(),
    }]}))
}

/// `GET /model_info`
pub(in crate::http) async fn model_info(State(app): State<Arc<App>>) -> Response {
    let model = &app.config.model;
    ok(&json!({
        "model_path": model, "served_model_name": model, "tokenizer_path": model, "is_generation": true,
        "preferred_sampling_params": null, "weight_version": "default", "load_format": "auto",
        "reasoning_parser": null, "tool_call_parser": null, "disaggregation_mode": mode(app.config.role),
        "has_image_understanding": false, "has_audio_understanding": false, "model_type": "simulated",
        "architectures": ["SimulatedForCausalLM"],
    }))
}

/// `GET /server_info`: of its hundreds of settings those that somebody may act upon.
pub(in crate::http) async fn server_info(State(app): State<Arc<App>>) -> Response {
    let config = &app.config;
    ok(&json!({
        "model_path": config.model, "tokenizer_path": config.model, "context_length": config.context(),
        "max_total_tokens": config.capacity(), "chunked_prefill_size": -1, "max_prefill_tokens": 16384,
        "page_size": config.block_size.get(), "dp_size": config.dp_ranks, "served_model_name": config.model,
        "enable_cache_report": config.prompt_tokens_details, "enable_metrics": true,
        "disaggregation_mode": mode(config.role), "disaggregation_transfer_backend": "simulated",
        "disaggregation_bootstrap_port": app.transfer.as_ref().map_or(BOOTSTRAP_PORT, |transfer| transfer.port),
        "disaggregation_decode_enable_radix_cache": false, "status": "ready", "max_total_num_tokens": config.capacity(),
        "max_req_input_len": config.context().saturating_sub(6),
        "kv_events": kv_events(&app), "internal_states": [], "version": release(Flavour::Sglang),
    }))
}

/// `GET /v1/loads`
pub(in crate::http) async fn loads(State(app): State<Arc<App>>) -> Response {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let loads: Vec<_> = app
        .ranks
        .all()
        .iter()
        .zip(0u32..)
        .map(|(rank, number)| load(&app, number, &rank.stats(), now))
        .collect();
    ok(&json!({
        "timestamp": format!("{now:.6}"), "version": release(Flavour::Sglang), "accelerator": null,
        "num_accelerators": 1, "loads": loads,
    }))
}

/// `POST /abort_request`
pub(in crate::http) async fn abort_request(State(app): State<Arc<App>>, body: Bytes) -> Response {
    match serde_json::from_slice::<AbortFields>(&body) {
        Ok(fields) => {
            app.aborts.abort(&fields.rid, fields.abort_all);
            StatusCode::OK.into_response()
        }
        Err(error) => ApiError::from(error).respond(Flavour::Sglang),
    }
}

/// `POST /flush_cache`: refused while anything runs or waits.
pub(in crate::http) async fn flush_cache(State(app): State<Arc<App>>) -> Response {
    let status = match app.ranks.flush_caches().await {
        true => StatusCode::OK,
        false => StatusCode::BAD_REQUEST,
    };
    let mut response = Response::new(Body::from(FLUSHED));
    *response.status_mut() = status;
    response
}

const fn mode(role: WorkerRole) -> &'static str {
    match role {
        WorkerRole::Aggregated => "null",
        WorkerRole::Prefill => "prefill",
        WorkerRole::Decode => "decode",
    }
}

/// Where events are found: the ports of the first rank.
fn kv_events(app: &App) -> Value {
    let Some(first) = app.sources.first() else { return Value::Null };
    let host = if first.address.is_wildcard() { "*" } else { first.address.host() };
    let mut told = json!({
        "publisher": "zmq", "endpoint_host": host, "endpoint_port_base": first.address.port(),
        "topic": TOPIC, "block_size": app.config.block_size.get(), "dp_size": app.config.dp_ranks,
    });
    if let Some(replay) = &first.replay_address {
        told["replay_endpoint_port_base"] = json!(replay.port());
    }
    told
}

fn load(app: &App, rank: u32, stats: &EngineStats, now: f64) -> Value {
    let config = &app.config;
    let used = stats.kv_blocks_held * u64::from(config.block_size.get());
    let usage = stats.kv_blocks_held as f64 / f64::from(config.kv_blocks);
    let hit_rate = stats.reused_tokens as f64 / (stats.prompt_tokens.max(1)) as f64;
    json!({
        "timestamp": now, "dp_rank": rank, "num_running_reqs": stats.running, "num_waiting_reqs": stats.waiting,
        "num_waiting_uncached_tokens": 0, "num_used_tokens": used, "num_total_tokens": used,
        "num_active_tokens": used, "num_prealloc_ready_tokens": 0, "max_total_num_tokens": config.capacity(),
        "max_running_requests": 2048, "token_usage": usage, "gen_throughput": 0.0, "cache_hit_rate": hit_rate,
        "utilization": 0.0, "total_prefill_uncached_tokens": stats.computed_tokens, "total_prefill_busy_us": 0,
        "decode_moments": null,
        "memory": {
            "weight_gb": 0.0, "kv_cache_gb": 0.0, "graph_gb": 0.0, "token_capacity": config.capacity(),
        },
        "disaggregation": {
            "mode": mode(config.role), "prefill_bootstrap_queue_reqs": 0, "prefill_inflight_queue_reqs": 0,
            "decode_prealloc_queue_reqs": 0, "decode_transfer_queue_reqs": 0, "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": 0.0, "kv_transfer_latency_ms": 0.0,
        },
        "queues": {
            "waiting": stats.waiting, "grammar": 0, "paused": 0, "retracted": 0, "prealloc_ready": 0,
        },
    })
}
