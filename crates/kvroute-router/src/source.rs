//! How one rank's cache is known, and how far that can be trusted.
//!
//! The event stream says what it can prove, finished requests say what must have happened, and reports say whether
//! the engine kept its promise. All of it meets in one state, which is shown where people look: on the metrics, in
//! the log once a change, and among the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kvroute_core::{Blocks, LastMessage, SourceState, WorkerRank};
use kvroute_engine::events::{RankTrust, SourceReason, SourceStatus as Reading};
use kvroute_metrics::SourceMetrics;
use parking_lot::{Mutex, MutexGuard};

use crate::memory::Memory;

/// One rank's source of knowledge.
#[derive(Debug)]
pub(crate) struct RankSource {
    name: WorkerRank,
    kind: SourceKind,
    judgement: Mutex<Judgement>,
    shown: ArcSwap<SourceStatus>,
    /// Follows from what is shown; every decision asks every rank for it.
    has_credit: AtomicBool,
    metrics: SourceMetrics,
    /// Milliseconds of the pool's time at which the source was last not exact, or lost all blocks.
    blemished: AtomicU64,
}

/// What is judged from, and what of it was said.
#[derive(Debug)]
struct Judgement {
    trust: RankTrust,
    logged: SourceStatus,
}

/// Where the knowledge comes from.
#[derive(Debug)]
pub(crate) enum SourceKind {
    /// KV events; the last message applied, held while a batch is applied, so that a snapshot fits it.
    Reported(Mutex<Option<LastMessage>>),
    /// What the router itself placed there.
    Remembered(Box<Memory>),
}

/// How much the index can be trusted about one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceStatus {
    /// The state.
    pub(crate) state: SourceState,
    /// Why it is not exact, and what would help.
    pub(crate) reason: String,
}

// === impl RankSource ===

impl RankSource {
    /// Follows KV events of an engine that can hold `capacity` blocks, where that is known.
    pub(crate) fn reported(
        name: &WorkerRank,
        capacity: Option<Blocks>,
        last: Option<LastMessage>,
        metrics: SourceMetrics,
        now: Duration,
    ) -> Self {
        Self::new(
            name,
            SourceKind::Reported(Mutex::new(last)),
            RankTrust::reported(capacity, now),
            metrics,
            now,
        )
    }

    /// Remembers what was placed.
    pub(crate) fn remembered(
        name: &WorkerRank,
        memory: Memory,
        metrics: SourceMetrics,
        now: Duration,
    ) -> Self {
        Self::new(name, SourceKind::Remembered(Box::new(memory)), RankTrust::remembered(), metrics, now)
    }

    fn new(
        name: &WorkerRank,
        kind: SourceKind,
        trust: RankTrust,
        metrics: SourceMetrics,
        now: Duration,
    ) -> Self {
        let status = SourceStatus::of(trust.status(now));
        metrics.set_state(status.state);
        Self {
            name: name.clone(),
            kind,
            judgement: Mutex::new(Judgement { trust, logged: status.clone() }),
            has_credit: AtomicBool::new(has_credit(status.state)),
            shown: ArcSwap::from_pointee(status),
            metrics,
            blemished: AtomicU64::new(0),
        }
    }

    /// The state as it was last looked at.
    pub(crate) fn status(&self) -> Arc<SourceStatus> {
        self.shown.load_full()
    }

    /// Its series.
    pub(crate) const fn metrics(&self) -> &SourceMetrics {
        &self.metrics
    }

    /// The router's own memory of the rank; `None` where the engine tells.
    pub(crate) const fn memory(&self) -> Option<&Memory> {
        match &self.kind {
            SourceKind::Reported(_) => None,
            SourceKind::Remembered(memory) => Some(memory),
        }
    }

    /// The last event message applied, locked against the next one; `None` where no events are followed.
    pub(crate) fn position(&self) -> Option<MutexGuard<'_, Option<LastMessage>>> {
        match &self.kind {
            SourceKind::Reported(last) => Some(last.lock()),
            SourceKind::Remembered(_) => None,
        }
    }

    /// Whether a cached prefix may lower the rank's cost.
    pub(crate) fn has_credit(&self) -> bool {
        self.has_credit.load(Ordering::Relaxed)
    }

    /// Takes what happened, and shows the state that follows from it: in one step, so that no older state is shown
    /// after a newer one.
    pub(crate) fn learn(&self, now: Duration, change: impl FnOnce(&mut RankTrust)) {
        let mut judgement = self.judgement.lock();
        change(&mut judgement.trust);
        let reading = judgement.trust.status(now);
        self.show(reading, &mut judgement.logged, now);
    }

    /// The rank lost all its blocks.
    pub(crate) fn cleared(&self, now: Duration) {
        self.blemish(now);
        self.learn(now, RankTrust::cleared);
    }

    /// The rank leaves: what was promised of it is stale, and what its attempts still tell reaches nobody.
    pub(crate) fn close(&self, now: Duration) {
        self.blemish(now);
        if let Some(memory) = self.memory() {
            memory.close();
        }
        self.metrics.close();
    }

    /// Whether, at or after a time, the source was not exact or lost all blocks: what it promised then may be stale.
    pub(crate) fn was_blemished_since(&self, since: Duration) -> bool {
        self.shown.load().state != SourceState::Exact
            || self.blemished.load(Ordering::Relaxed) >= millis(since)
    }

    /// Shows a state, and logs it unless it was the last one logged. One that is over in a moment, or ends in
    /// another, is no change to be told of: a stream that loses events again and again would fill the log.
    fn show(&self, reading: Reading, logged: &mut SourceStatus, now: Duration) {
        let before = self.shown.load();
        if reading.state != SourceState::Exact || before.state != SourceState::Exact {
            self.blemish(now);
        }
        let status = SourceStatus::of(reading);
        if **before == status {
            return;
        }
        self.metrics.set_state(status.state);
        let is_passing =
            matches!(reading.reason, Some(SourceReason::CatchingUp | SourceReason::Unidentified));
        if !is_passing && *logged != status {
            status.log(&self.name);
            logged.clone_from(&status);
        }
        self.has_credit.store(has_credit(status.state), Ordering::Relaxed);
        self.shown.store(Arc::new(status));
    }

    fn blemish(&self, now: Duration) {
        self.blemished.fetch_max(millis(now).max(1), Ordering::Relaxed);
    }
}

/// What the index believes of a rank in such a state is not to be relied on.
const fn has_credit(state: SourceState) -> bool {
    !matches!(state, SourceState::Blind | SourceState::Suspect)
}

// === impl SourceStatus ===

impl SourceStatus {
    fn of(reading: Reading) -> Self {
        let reason = reading.reason.map(|reason| reason.to_string()).unwrap_or_default();
        Self { state: reading.state, reason }
    }

    fn log(&self, rank: &WorkerRank) {
        let state = self.state.as_str();
        match self.state {
            SourceState::Exact | SourceState::Remembered => {
                tracing::info!(%rank, state, "KV event source changed");
            }
            _ => tracing::warn!(%rank, state, reason = self.reason, "KV event source changed"),
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io;

    use kvroute_core::{DpRank, WorkerId};
    use kvroute_metrics::{Metrics, MetricsOptions};

    use super::*;

    /// Where a test's log goes.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(change: impl FnOnce(&RankSource)) -> usize {
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        let name = WorkerRank::new(WorkerId::new("w"), DpRank::new(0));
        let shown = metrics.source(&name, SourceState::Degraded);
        let source = RankSource::reported(&name, None, None, shown, Duration::ZERO);
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || change(&source));
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        text.lines().count()
    }

    fn degraded(reason: SourceReason) -> Reading {
        Reading { state: SourceState::Degraded, reason: Some(reason) }
    }

    #[test]
    fn a_stream_with_one_gap_after_the_other_filled_the_log() {
        let lines = logged(|source| {
            let tell = |reading| source.learn(Duration::ZERO, |trust| trust.stream(reading, Duration::ZERO));
            tell(Reading::EXACT);
            for _ in 0..40 {
                tell(degraded(SourceReason::CatchingUp));
                tell(degraded(SourceReason::ReplayTooShort));
            }
            for _ in 0..40 {
                tell(degraded(SourceReason::CatchingUp));
                tell(Reading::EXACT);
            }
        });
        assert_eq!(lines, 3, "exact, too short, exact again");
    }
}
