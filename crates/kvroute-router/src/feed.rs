//! Brings one rank's KV events into the index.
//!
//! Batches of a rank are applied in their order by one task, from a short queue: a router that cannot keep up
//! stops reading the socket, which the engine's publisher answers by dropping, which shows as a gap and is
//! replayed. Nothing piles up here.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kvroute_core::{EventBatch, KvEvent};
use kvroute_engine::events::{EventFollower, SourceChange, SourceIncident, SourceUpdate};
use kvroute_index::Applied;
use kvroute_metrics::{EventKind, SourceMetrics};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pool::Pool;
use crate::worker::Rank;

/// Updates that may wait for the index.
const QUEUE: usize = 256;

/// Follows a rank's events until told to stop.
#[derive(Debug)]
pub(crate) struct Feed {
    pool: Arc<Pool>,
    rank: Arc<Rank>,
}

// === impl Feed ===

impl Feed {
    /// A feed of this rank.
    pub(crate) fn new(pool: Arc<Pool>, rank: Arc<Rank>) -> Self {
        Self { pool, rank }
    }

    /// Runs until `stop`.
    pub(crate) async fn run(self, follower: EventFollower, stop: CancellationToken) {
        let (sender, mut updates) = mpsc::channel(QUEUE);
        let following = follower.run(sender, stop);
        let applying = async {
            while let Some(update) = updates.recv().await {
                self.take(update);
            }
        };
        tokio::join!(following, applying);
    }

    fn take(&self, update: SourceUpdate) {
        match update.change {
            SourceChange::Clear => self.clear(),
            SourceChange::Apply(batch) => self.apply(&batch),
            SourceChange::Status(status) => self.rank.set_source(status),
            SourceChange::Incident(incident) => self.take_incident(incident),
        }
        if let Some(metrics) = &self.rank.source_metrics {
            metrics.set_blocks(self.pool.index().read().blocks(self.rank.slot));
        }
    }

    fn clear(&self) {
        let _copies = self.pool.index().write().clear(self.rank.slot);
    }

    fn apply(&self, batch: &EventBatch) {
        let mut applied = Applied::default();
        let mut index = self.pool.index().write();
        for event in &batch.events {
            applied += index.apply(self.rank.slot, event);
        }
        let size = index.block_size(self.rank.slot);
        drop(index);
        if let Some(size) = size {
            self.rank.learn_block_size(size);
        }
        if let Some(metrics) = &self.rank.source_metrics {
            count(metrics, batch);
            if let Some(lag) = lag_of(batch) {
                metrics.set_event_lag(lag);
            }
        }
        self.complain(&applied, batch.undecodable);
    }

    fn take_incident(&self, incident: SourceIncident) {
        if incident == SourceIncident::Disconnected {
            self.rank.worker.doubt.notify_one();
        }
        let Some(metrics) = &self.rank.source_metrics else { return };
        match incident {
            SourceIncident::Gap => metrics.gap(),
            SourceIncident::Missed(batches) => metrics.missed_batches(batches),
            SourceIncident::ReplayEnded(outcome) => metrics.replay(outcome),
            SourceIncident::Restart => metrics.restart(),
            SourceIncident::Disconnected => {}
        }
    }

    fn complain(&self, applied: &Applied, undecodable: u64) {
        let Applied { orphaned, conflicting, dropped, rejected, .. } = *applied;
        if dropped + rejected + conflicting + undecodable == 0 {
            return;
        }
        if let Some(unlogged) = self.rank.bad_events.open() {
            let rank = &self.rank.name;
            tracing::warn!(
                %rank, rejected, undecodable, orphaned, dropped, conflicting, unlogged,
                "KV events that contradict each other or cannot be read: cached prefixes of this rank may be missing"
            );
        }
    }
}

/// Age of a batch by the engine's clock and ours; clocks that disagree give zero, never a negative age.
fn lag_of(batch: &EventBatch) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    batch.published.map(|published| now.saturating_sub(published))
}

fn count(metrics: &SourceMetrics, batch: &EventBatch) {
    for event in &batch.events {
        let kind = match event {
            KvEvent::Stored(_) | KvEvent::Moved { .. } => EventKind::Stored,
            KvEvent::Removed { .. } => EventKind::Removed,
            KvEvent::Cleared => EventKind::Cleared,
        };
        metrics.events(kind, 1);
    }
    metrics.events(EventKind::Ignored, batch.ignored);
    metrics.events(EventKind::Undecodable, batch.undecodable);
}
