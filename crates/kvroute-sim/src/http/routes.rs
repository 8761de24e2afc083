//! Which paths each engine has.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::info::{llamacpp, sglang, trtllm};
use super::{App, generate, info, metrics, pooling, render, tokenize};
use crate::config::Flavour;

/// The paths of one engine, and those of the simulation.
pub(super) fn of(flavour: Flavour) -> Router<Arc<App>> {
    let routes = match flavour {
        Flavour::Vllm => vllm(),
        Flavour::Sglang => sglang(),
        Flavour::TrtLlm => trtllm(),
        Flavour::LlamaCpp => llamacpp(),
    };
    routes
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::completions))
        .route("/stats", get(info::stats))
        .route("/faults", get(info::faults).post(info::set_faults))
}

fn vllm() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/responses", post(generate::responses))
        .route("/v1/messages", post(generate::messages))
        .route("/v1/chat/completions/render", post(render::render))
        .route("/v1/models", get(info::models))
        .route("/health", get(info::health))
        .route("/version", get(info::version))
        .route("/metrics", get(metrics::metrics))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/v1/embeddings", post(pooling::embeddings))
        .route("/v1/rerank", post(pooling::rerank))
        .route("/v1/score", post(pooling::score))
        .route("/kv_event_sources", get(info::kv_event_sources))
        .route("/reset_prefix_cache", post(info::reset_prefix_cache))
}

fn sglang() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/models", get(sglang::models))
        .route("/health", get(info::health))
        .route("/health_generate", get(info::health))
        .route("/ready", get(info::health))
        .route("/model_info", get(sglang::model_info))
        .route("/get_model_info", get(sglang::model_info))
        .route("/server_info", get(sglang::server_info))
        .route("/get_server_info", get(sglang::server_info))
        .route("/v1/loads", get(sglang::loads))
        .route("/metrics", get(metrics::metrics))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/v1/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/v1/embeddings", post(pooling::embeddings))
        .route("/v1/rerank", post(pooling::rerank))
        .route("/v1/score", post(pooling::score))
        .route("/abort_request", post(sglang::abort_request))
        .route("/flush_cache", post(sglang::flush_cache).get(sglang::flush_cache))
}

fn trtllm() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/models", get(trtllm::models))
        .route("/health", get(info::health))
        .route("/health_generate", get(info::health))
        .route("/version", get(info::version))
        .route("/server_info", get(trtllm::server_info))
        .route("/kv_cache_events", post(trtllm::kv_cache_events))
        .route("/metrics", get(trtllm::iteration_stats))
        .route("/prometheus/metrics", get(metrics::metrics))
        .route("/prometheus/metrics/", get(metrics::metrics))
        .route("/_internal/tokenize", post(tokenize::tokenize))
}

fn llamacpp() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/models", get(llamacpp::models))
        .route("/models", get(llamacpp::models))
        .route("/health", get(llamacpp::health))
        .route("/v1/health", get(llamacpp::health))
        .route("/props", get(llamacpp::props))
        .route("/slots", get(llamacpp::slots))
        .route("/lora-adapters", get(llamacpp::lora_adapters))
        .route("/metrics", get(metrics::metrics))
        .route("/tokenize", post(tokenize::llama_tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/v1/embeddings", post(pooling::embeddings))
        .route("/v1/rerank", post(pooling::rerank))
        .route("/apply-template", post(tokenize::apply_template))
}
