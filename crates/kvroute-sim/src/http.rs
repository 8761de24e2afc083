//! The HTTP surface: vLLM's routes as far as they are simulated, and two of the simulation's own (`/stats`,
//! `/faults`).

mod conversation;
mod error;
mod generate;
mod info;
mod metrics;
mod request;
mod shapes;
mod stream;
mod tokenize;
mod usage;
mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post};

use self::conversation::ResponseStore;
use crate::config::SimConfig;
use crate::control::Controls;
use crate::encoder::PromptEncoder;
use crate::events::EventSource;
use crate::mix::fold;
use crate::process::{Blueprint, Process};
use crate::runner::EngineHandle;
use crate::words::Words;

/// The largest request body, in bytes.
const BODY_LIMIT: usize = 64 << 20;
/// The release whose wire formats are spoken.
const VERSION: &str = "0.32.0";
/// Header of every answer: which simulated engine gave it, by its address. A router passes it on.
const ENGINE_HEADER: HeaderName = HeaderName::from_static("x-simulated-engine");
/// `system_fingerprint` of every answer.
const FINGERPRINT: &str = "vllm-0.32.0-simulated";

/// What the handlers share.
pub(crate) struct App {
    pub(crate) engine: EngineHandle,
    pub(crate) encoder: Arc<dyn PromptEncoder>,
    pub(crate) words: Arc<Words>,
    pub(crate) config: SimConfig,
    pub(crate) sources: Vec<EventSource>,
    pub(crate) controls: Controls,
    responses: ResponseStore,
    started: SystemTime,
    next_request: AtomicU64,
}

// === impl App ===

impl App {
    pub(crate) fn new(blueprint: &Blueprint, process: &Process, controls: Controls) -> Self {
        Self {
            engine: process.handle.clone(),
            encoder: Arc::clone(&blueprint.encoder),
            words: Arc::clone(&blueprint.words),
            config: blueprint.config.clone(),
            sources: process.sources.clone(),
            controls,
            responses: ResponseStore::default(),
            started: SystemTime::now(),
            next_request: AtomicU64::new(0),
        }
    }

    /// Every route.
    pub(crate) fn router(self) -> Router {
        let name = HeaderValue::from_str(&self.config.listen.to_string()).ok();
        let with_name = move |mut response: Response| {
            if let Some(name) = name.clone() {
                response.headers_mut().insert(ENGINE_HEADER, name);
            }
            std::future::ready(response)
        };
        Router::new()
            .route("/v1/chat/completions", post(generate::chat))
            .route("/v1/completions", post(generate::completions))
            .route("/v1/responses", post(generate::responses))
            .route("/v1/messages", post(generate::messages))
            .route("/v1/models", get(info::models))
            .route("/health", get(info::health))
            .route("/version", get(info::version))
            .route("/metrics", get(metrics::metrics))
            .route("/tokenize", post(tokenize::tokenize))
            .route("/detokenize", post(tokenize::detokenize))
            .route("/kv_event_sources", get(info::kv_event_sources))
            .route("/reset_prefix_cache", post(info::reset_prefix_cache))
            .route("/stats", get(info::stats))
            .route("/faults", get(info::faults).post(info::set_faults))
            .fallback(error::not_found)
            .method_not_allowed_fallback(error::method_not_allowed)
            .layer(DefaultBodyLimit::max(BODY_LIMIT))
            .layer(map_response(with_name))
            .with_state(Arc::new(self))
    }

    /// Sixteen hexadecimal digits that no other request of this engine has.
    fn unique_id(&self) -> String {
        let start = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let number = self.next_request.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}", fold(start.as_nanos() as u64, number))
    }
}

/// Seconds since 1970.
fn unix_time(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
