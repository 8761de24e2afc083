//! What operators and their tools talk to. Bound to loopback by default.

pub(crate) mod advice;
mod configuration;
mod decisions;
mod funnel;
mod guard;
pub(crate) mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use kvroute_openai::ErrorBody;
use kvroute_router::{RouteError, Router as KvRouter};
use tokio::task::spawn_blocking;

use crate::body::BodyLimits;
use crate::live::Live;
use crate::{json, not_served, openapi};

const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// State of the admin plane's handlers.
#[derive(Clone, Debug)]
pub(crate) struct AdminPlane {
    /// The router behind the plane.
    pub(crate) router: Arc<KvRouter>,
    /// What may change while the server runs.
    pub(crate) live: Arc<Live>,
}

/// The routes of the admin plane.
pub(crate) fn app(state: AdminPlane) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/api/workers", get(workers::list).post(workers::add))
        .route("/api/workers/{id}", delete(workers::remove))
        .route("/api/workers/{id}/drain", post(workers::drain))
        .route("/api/workers/{id}/undrain", post(workers::undrain))
        .route("/api/discovery", get(workers::discoveries))
        .route("/api/funnel", get(funnel::read))
        .route("/api/decisions", get(decisions::list))
        .route("/api/decisions/{id}", get(decisions::one))
        .route("/api/route", post(advice::route))
        .route("/api/config", get(configuration::read))
        .route("/openapi.json", get(openapi::read))
        .route("/health", get(health))
        .fallback(not_served::unknown_path)
        .method_not_allowed_fallback(not_served::wrong_method)
        .layer(from_fn_with_state(state.clone(), guard::guard))
        .with_state(state)
}

/// Of a large fleet that takes longer than a request may be held up.
async fn metrics(State(plane): State<AdminPlane>) -> Response {
    aside(move || ([(CONTENT_TYPE, EXPOSITION)], plane.router.exposition()).into_response()).await
}

async fn health() -> Response {
    json::response(StatusCode::OK, &serde_json::json!({"status": "live"}))
}

// === impl AdminPlane ===

impl AdminPlane {
    /// What the body of a request may take.
    pub(crate) fn body_limits(&self) -> BodyLimits {
        self.live.settings.load().body
    }
}

/// Work that would hold up the requests whose thread it takes.
async fn aside(work: impl FnOnce() -> Response + Send + 'static) -> Response {
    spawn_blocking(work).await.unwrap_or_else(|error| {
        let body = ErrorBody::new("server_error", format!("the answer could not be made: {error}"));
        json::error(StatusCode::INTERNAL_SERVER_ERROR, &body)
    })
}

fn failed(error: &RouteError) -> Response {
    json::error(error.status(), &error.body())
}
