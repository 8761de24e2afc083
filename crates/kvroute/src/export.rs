//! Spans of requests, on their way to a collector (OTLP over HTTP, protobuf).
//!
//! OpenTelemetry's libraries encode and send. Its span processor is not used: it sends from a thread of its own, where
//! this program's HTTP client cannot run, and says nowhere how many spans it dropped. Nor is the common bridge from
//! `tracing` to OpenTelemetry: it makes up the ids of spans, and a worker must be told the same ids whether or not
//! anything is exported.

mod clock;
mod collector;
mod courier;
mod draft;
mod layer;

use std::time::Duration;

use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub(crate) use self::layer::SpanLayer;

use self::collector::Collector;
use self::courier::{Courier, Losses};
use crate::config::TRACES_PATH;

/// Spans that wait to be sent; more are dropped.
const QUEUE: usize = 2048;

const SERVICE: &str = "kvroute";
const SERVICE_NAME: Key = Key::from_static_str("service.name");
/// What the name begins with where nobody gave one.
const NAMELESS: &str = "unknown_service";

/// Spans are sent while this lives.
#[derive(Debug)]
pub(crate) struct Export {
    sending: JoinSet<()>,
    stop: CancellationToken,
}

/// Begins to send what the layer is told to the collector at this base address. Must be called in a runtime.
pub(crate) fn start(collector: &str) -> Result<(SpanLayer, Export), ExporterBuildError> {
    let url = format!("{collector}{TRACES_PATH}");
    let client = Collector::new();
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(&url)
        .with_http_client(client.clone())
        .with_retry_policy(RetryPolicy::disabled())
        .build()?;
    exporter.set_resource(&resource());
    let (sender, receiver) = mpsc::channel(QUEUE);
    let losses = Losses::default();
    let stop = CancellationToken::new();
    let courier = Courier::new(exporter, client, url, receiver, losses.clone(), stop.clone());
    let mut sending = JoinSet::new();
    sending.spawn(courier.run());
    Ok((SpanLayer::new(sender, losses), Export { sending, stop }))
}

/// Who sends: by the standard's own variables, else this program.
fn resource() -> Resource {
    let named = Resource::builder().build().get(&SERVICE_NAME);
    let is_nameless = named.is_none_or(|name| name.as_str().starts_with(NAMELESS));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    if is_nameless { builder.with_service_name(SERVICE).build() } else { builder.build() }
}

// === impl Export ===

impl Export {
    /// Sends what is left, for no longer than this.
    pub(crate) async fn flush(mut self, within: Duration) {
        self.stop.cancel();
        if timeout(within, self.sending.join_next()).await.is_err() {
            tracing::warn!("the collector did not take the last spans in time, they are lost");
        }
    }
}
