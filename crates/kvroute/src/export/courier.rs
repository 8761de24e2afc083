//! Carries spans to the collector, in batches, and bears it if the collector is not there.
//!
//! A batch is tried once: what cannot be delivered is counted and gone, as is what comes while too many wait. After a
//! failure the collector is left alone for a while, longer each time, and each time one warning tells how many were lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::collector::Collector;

/// Spans that are sent at once.
const BATCH: usize = 512;

/// How long a span may wait for others to go with it.
const GATHERED: Duration = Duration::from_secs(1);

/// How long the collector is left alone after its first failure, and at the most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// While the collector is well, losses are told of no more often than this.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// Spans that nobody will see, since they were last told of.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses(Arc<AtomicU64>);

/// Sends what comes out of the queue.
#[derive(Debug)]
pub(super) struct Courier {
    exporter: SpanExporter,
    client: Collector,
    url: String,
    queue: Receiver<SpanData>,
    losses: Losses,
    stop: CancellationToken,
    /// The next one, while the collector fails.
    pause: Option<Duration>,
    told: Option<Instant>,
}

// === impl Losses ===

impl Losses {
    /// So many more.
    pub(super) fn add(&self, spans: usize) {
        self.0.fetch_add(spans as u64, Ordering::Relaxed);
    }

    fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// All of them; from here on they are told of.
    pub(super) fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

// === impl Courier ===

impl Courier {
    pub(super) const fn new(
        exporter: SpanExporter,
        client: Collector,
        url: String,
        queue: Receiver<SpanData>,
        losses: Losses,
        stop: CancellationToken,
    ) -> Self {
        Self { exporter, client, url, queue, losses, stop, pause: None, told: None }
    }

    /// Sends until it is stopped, and then what is left.
    pub(super) async fn run(mut self) {
        let (stop, mut batch) = (self.stop.clone(), Vec::with_capacity(BATCH));
        while let Some(true) = stop.run_until_cancelled(self.gather(&mut batch)).await {
            self.deliver(&mut batch).await;
            if let Some(pause) = self.pause {
                let _stopped = stop.run_until_cancelled(sleep(pause)).await;
            }
        }
        self.deliver_rest(&mut batch).await;
    }

    /// Waits for a batch to be full, or old enough; false if nothing comes any more. Dropped before, it leaves in the
    /// batch what has come.
    async fn gather(&mut self, batch: &mut Vec<SpanData>) -> bool {
        if self.queue.recv_many(batch, BATCH).await == 0 {
            return false;
        }
        let until = Instant::now() + GATHERED;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            match timeout_at(until, self.queue.recv_many(batch, room)).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
        }
        true
    }

    async fn deliver(&mut self, batch: &mut Vec<SpanData>) {
        let spans = batch.len();
        match self.exporter.export(std::mem::take(batch)).await {
            Ok(()) => self.delivered(),
            Err(error) => {
                self.losses.add(spans);
                self.failed(&self.client.trouble().unwrap_or_else(|| error.to_string()));
            }
        }
    }

    /// What came before the stop, unless the collector fails; then what was lost and not told of yet.
    async fn deliver_rest(&mut self, batch: &mut Vec<SpanData>) {
        self.queue.close();
        self.pause = None;
        while self.pause.is_none() && (!batch.is_empty() || self.queue.recv_many(batch, BATCH).await > 0) {
            self.deliver(batch).await;
        }
        let lost = self.losses.take() + self.queue.len() as u64;
        if lost > 0 {
            tracing::warn!(collector = self.url, lost, "the last spans are not exported");
        }
    }

    fn delivered(&mut self) {
        if self.pause.take().is_some() {
            tracing::info!(collector = self.url, lost = self.losses.take(), "spans are exported again");
        } else if self.losses.any() && self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            let lost = self.losses.take();
            tracing::warn!(
                collector = self.url,
                lost,
                "more spans ended than could be exported; lower tracing.sample"
            );
        } else {
            return;
        }
        self.told = Some(Instant::now());
    }

    fn failed(&mut self, error: &str) {
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some(pause);
        tracing::warn!(
            collector = self.url,
            error,
            lost = self.losses.take(),
            next_try_seconds = pause.as_secs(),
            "spans are not exported; tracing.otlp must be a collector that takes OTLP over HTTP, usually at port 4318"
        );
    }
}
