//! The HTTP surface: the routes of each engine as far as they are simulated, and two of the simulation's own (`/stats`,
//! `/faults`).

mod abort;
mod conversation;
mod dialect;
mod error;
mod generate;
mod handover;
mod images;
mod info;
mod metrics;
mod pooling;
mod render;
mod request;
mod routes;
mod shapes;
mod stream;
mod tokenize;
mod tools;
mod usage;
mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::map_response;
use axum::response::Response;

use self::abort::Aborts;
use self::conversation::ResponseStore;
use crate::config::{Flavour, SimConfig};
use crate::control::Controls;
use crate::encoder::PromptEncoder;
use crate::events::{EventSource, PolledEvents};
use crate::mix::fold;
use crate::process::{Blueprint, Process, Transfer};
use crate::ranks::Ranks;
use crate::words::Words;

/// The largest request body, in bytes.
const BODY_LIMIT: usize = 64 << 20;
/// Header of every answer: which simulated engine gave it, by its address. A router passes it on.
const ENGINE_HEADER: HeaderName = HeaderName::from_static("x-simulated-engine");
/// `system_fingerprint` of every answer of vLLM.
const FINGERPRINT: &str = "vllm-0.32.0-simulated";

/// What the handlers share.
pub(crate) struct App {
    pub(crate) ranks: Ranks,
    pub(crate) encoder: Arc<dyn PromptEncoder>,
    pub(crate) words: Arc<Words>,
    pub(crate) config: SimConfig,
    pub(crate) sources: Vec<EventSource>,
    pub(crate) polled: Option<Arc<PolledEvents>>,
    pub(crate) transfer: Option<Transfer>,
    pub(crate) controls: Controls,
    aborts: Aborts,
    responses: ResponseStore,
    started: SystemTime,
    next_request: AtomicU64,
    images_seen: AtomicU64,
}

// === impl App ===

impl App {
    pub(crate) fn new(blueprint: &Blueprint, process: &Process, controls: Controls) -> Self {
        Self {
            ranks: process.ranks.clone(),
            encoder: Arc::clone(&blueprint.encoder),
            words: Arc::clone(&blueprint.words),
            config: blueprint.config.clone(),
            sources: process.sources.clone(),
            polled: process.polled.clone(),
            transfer: process.transfer.clone(),
            controls,
            aborts: Aborts::default(),
            responses: ResponseStore::default(),
            started: SystemTime::now(),
            next_request: AtomicU64::new(0),
            images_seen: AtomicU64::new(0),
        }
    }

    /// Every route.
    pub(crate) fn router(self) -> Router {
        let name = HeaderValue::from_str(&self.config.listen.to_string()).ok();
        let flavour = self.config.flavour;
        let with_name = move |mut response: Response| {
            if let Some(name) = name.clone() {
                response.headers_mut().insert(ENGINE_HEADER, name);
            }
            if flavour == Flavour::LlamaCpp {
                dress_as_llama(response.headers_mut());
            }
            std::future::ready(response)
        };
        routes::of(self.config.flavour)
            .fallback(error::not_found)
            .method_not_allowed_fallback(error::method_not_allowed)
            .layer(DefaultBodyLimit::max(BODY_LIMIT))
            .layer(map_response(with_name))
            .with_state(Arc::new(self))
    }

    /// A number that no other request of this engine has.
    fn unique_number(&self) -> u64 {
        let start = self.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let number = self.next_request.fetch_add(1, Ordering::Relaxed);
        fold(start.as_nanos() as u64, number)
    }

    /// It as sixteen hexadecimal digits.
    fn unique_id(&self) -> String {
        format!("{:016x}", self.unique_number())
    }

    /// Thirty-two hexadecimal digits.
    fn long_id(&self) -> String {
        let number = self.unique_number();
        format!("{number:016x}{:016x}", fold(number, 1))
    }

    /// What this engine is called among those that hand over KV.
    fn engine_id(&self) -> String {
        format!("{:016x}", fold(u64::from(self.config.listen.port()), 2))
    }

    /// Where other engines reach this one.
    fn own_host(&self) -> String {
        match self.config.listen.ip() {
            ip if ip.is_unspecified() => String::from("127.0.0.1"),
            ip => ip.to_string(),
        }
    }

    /// Lets KV that is handed over wait for so long only.
    fn lease(&self, key: String, is_over: bool) {
        let Some(transfer) = &self.transfer else { return };
        if is_over {
            transfer.desk.expire(&key);
            return;
        }
        let (desk, stop, lease) = (Arc::clone(&transfer.desk), transfer.stop.clone(), self.config.lease);
        transfer.tasks.spawn(async move {
            let is_due = stop.run_until_cancelled(tokio::time::sleep(lease)).await;
            is_due.map(|()| desk.expire(&key))
        });
    }
}

/// The headers of llama.cpp, whose server is another one than that of all the others.
fn dress_as_llama(headers: &mut HeaderMap) {
    headers.insert(header::SERVER, HeaderValue::from_static("llama.cpp"));
    let value = match headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes) {
        Some(b"application/json") => "application/json; charset=utf-8",
        Some(b"text/event-stream; charset=utf-8") => "text/event-stream",
        _ => return,
    };
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(value));
}

/// Seconds since 1970.
fn unix_time(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
