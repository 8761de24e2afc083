//! What operators and their tools talk to. Bound to loopback by default.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use kvroute_router::Router as KvRouter;

use crate::{json, not_served};

const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes of the admin plane.
pub(crate) fn app(router: Arc<KvRouter>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/api/workers", get(workers))
        .route("/health", get(health))
        .fallback(not_served::unknown_path)
        .method_not_allowed_fallback(not_served::wrong_method)
        .with_state(router)
}

async fn metrics(State(router): State<Arc<KvRouter>>) -> Response {
    ([(CONTENT_TYPE, EXPOSITION)], router.metrics().render()).into_response()
}

async fn workers(State(router): State<Arc<KvRouter>>) -> Response {
    json::response(StatusCode::OK, &router.workers())
}

async fn health() -> Response {
    json::response(StatusCode::OK, &serde_json::json!({"status": "live"}))
}
