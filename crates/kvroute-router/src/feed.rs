//! Brings one rank's KV events into the index, and lets time pass for what is only remembered.
//!
//! Batches of a rank are applied in their order by one task, from a short queue: a router that cannot keep up
//! stops reading the socket, which the engine's publisher answers by dropping, which shows as a gap and is
//! replayed. Nothing piles up here.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{Blocks, EventBatch, KvEvent, LastMessage};
use kvroute_engine::events::{EventFollower, SourceChange, SourceIncident, SourceUpdate};
use kvroute_index::Applied;
use kvroute_metrics::{EventKind, RejectReason, SourceMetrics};
use tokio::sync::mpsc;
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::pool::Pool;
use crate::rank::Rank;
use crate::source::RankSource;
use crate::wall_clock;

/// Updates that may wait for the index.
const QUEUE: usize = 256;

/// How often time alone may change what is known: silence makes blind, and what is remembered grows old.
const TICK: Duration = Duration::from_secs(1);

/// Keeps what is known of one rank up to date until told to stop.
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

    /// Runs until `stop`; without a follower there is only time that passes.
    pub(crate) async fn run(self, follower: Option<EventFollower>, stop: CancellationToken) {
        let Some(source) = &self.rank.source else { return };
        let ticking = stop.run_until_cancelled(self.tick(source));
        let Some(follower) = follower else {
            let _stopped = ticking.await;
            return;
        };
        let (sender, mut updates) = mpsc::channel(QUEUE);
        let following = follower.run(sender, stop.clone());
        let applying = async {
            while let Some(update) = updates.recv().await {
                self.take(source, update);
            }
        };
        tokio::join!(following, applying, ticking);
    }

    async fn tick(&self, source: &RankSource) {
        let knowledge = self.pool.knowledge();
        let mut ticks = interval(TICK);
        loop {
            ticks.tick().await;
            source.learn(knowledge.now(), |_| {});
            if let Some(memory) = source.memory() {
                memory.expire(knowledge);
                self.show_size(source);
            }
        }
    }

    fn take(&self, source: &RankSource, update: SourceUpdate) {
        let knowledge = self.pool.knowledge();
        match update.change {
            SourceChange::Clear => {
                let mut position = source.position();
                knowledge.clear(self.rank.slot);
                set_position(&mut position, None);
                source.cleared(knowledge.now());
            }
            SourceChange::Apply { batch, position } => self.apply(source, &batch, position),
            SourceChange::Status(status) => {
                let now = knowledge.now();
                source.learn(now, |trust| trust.stream(status, now));
            }
            SourceChange::Incident(incident) => self.take_incident(source, incident),
        }
        self.show_size(source);
    }

    fn apply(&self, source: &RankSource, batch: &EventBatch, last: Option<LastMessage>) {
        let knowledge = self.pool.knowledge();
        let mut position = source.position();
        let applied = knowledge.apply(self.rank.slot, &batch.events);
        set_position(&mut position, last);
        drop(position);
        let now = knowledge.now();
        if batch.events.contains(&KvEvent::Cleared) {
            source.cleared(now);
        }
        source.learn(now, |trust| {
            trust.heard(now);
            trust.applied(Blocks::new(applied.stored));
        });
        if let Some(size) = knowledge.index().block_size(self.rank.slot) {
            self.rank.learn_block_size(size);
        }
        count(source.metrics(), batch, &applied);
        if let Some(lag) = lag_of(batch) {
            source.metrics().set_event_lag(lag);
        }
        self.complain(&applied, batch);
    }

    fn show_size(&self, source: &RankSource) {
        let (knowledge, metrics) = (self.pool.knowledge(), self.pool.metrics());
        source.metrics().set_blocks(knowledge.index().blocks(self.rank.slot));
        metrics.set_index_bytes(knowledge.index().bytes());
        metrics.index_budget_evicted(knowledge.take_pushed_out());
    }

    fn take_incident(&self, source: &RankSource, incident: SourceIncident) {
        let metrics = source.metrics();
        match incident {
            SourceIncident::Gap => metrics.gap(),
            SourceIncident::Missed(batches) => metrics.missed_batches(batches),
            SourceIncident::ReplayEnded(outcome) => metrics.replay(outcome),
            SourceIncident::Restart => metrics.restart(),
            SourceIncident::Disconnected => self.rank.worker.doubt.notify_one(),
        }
    }

    fn complain(&self, applied: &Applied, batch: &EventBatch) {
        let Applied { orphaned, conflicting, dropped, .. } = *applied;
        let (rejected, undecodable) = (applied.rejected + batch.rejected, batch.undecodable);
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

fn set_position(
    position: &mut Option<parking_lot::MutexGuard<'_, Option<LastMessage>>>,
    last: Option<LastMessage>,
) {
    if let Some(position) = position {
        **position = last;
    }
}

/// Age of a batch by the engine's clock and ours; clocks that disagree give zero, never a negative age.
fn lag_of(batch: &EventBatch) -> Option<Duration> {
    batch.published.map(|published| wall_clock::since_epoch().saturating_sub(published))
}

fn count(metrics: &SourceMetrics, batch: &EventBatch, applied: &Applied) {
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
    metrics.rejected(RejectReason::Orphaned, applied.orphaned);
    metrics.rejected(RejectReason::Dropped, applied.dropped);
    metrics.rejected(RejectReason::Conflicting, applied.conflicting);
    metrics.rejected(RejectReason::Rejected, applied.rejected + batch.rejected);
}
