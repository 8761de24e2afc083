//! The metrics of one rank's index source. Only a rank that has a source has this handle.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kvroute_core::{Blocks, WorkerRank};
use prometheus::{Gauge, IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;
use crate::worker::StateGauges;
use crate::{EventKind, RejectReason, ReplayOutcome, SourceState};

/// Handles of one source; closing or dropping it removes the series.
#[derive(Debug)]
pub struct SourceMetrics {
    families: Arc<Families>,
    rank: WorkerRank,
    state: StateGauges<{ SourceState::VALUES.len() }>,
    blocks: IntGauge,
    stream: OnceLock<StreamMetrics>,
    series: Scope,
}

/// What only an event stream has: absent, not zero, where the rank is remembered.
#[derive(Debug)]
struct StreamMetrics {
    rejected: [IntCounter; RejectReason::VALUES.len()],
    event_lag_seconds: Gauge,
    events: [IntCounter; EventKind::VALUES.len()],
    gaps: IntCounter,
    missed_batches: IntCounter,
    replays: [IntCounter; ReplayOutcome::VALUES.len()],
    restarts: IntCounter,
    series: Scope,
}

// === impl SourceMetrics ===

impl SourceMetrics {
    /// The series of the event stream exist from the start, unless the rank is remembered.
    pub(crate) fn new(families: &Arc<Families>, rank: &WorkerRank, state: SourceState) -> Self {
        let mut scope = Scope::default();
        let dp_rank = rank.dp_rank.to_string();
        let pair = [rank.worker.as_str(), &dp_rank];
        let states = SourceState::ALL
            .map(|value| scope.hold(&families.source_state, [pair[0], pair[1], value.as_str()]));
        let metrics = Self {
            families: Arc::clone(families),
            rank: rank.clone(),
            state: StateGauges::new(states),
            blocks: scope.hold(&families.index_blocks, pair),
            stream: OnceLock::new(),
            series: scope,
        };
        if state != SourceState::Remembered {
            metrics.stream();
        }
        metrics.set_state(state);
        metrics
    }

    /// Shows the current trust in the source.
    pub fn set_state(&self, state: SourceState) {
        self.state.set(state as usize);
    }

    /// Shows how many device blocks the index holds for the rank.
    pub fn set_blocks(&self, blocks: Blocks) {
        self.blocks.set(blocks.get().cast_signed());
    }

    /// Counts blocks (with [`RejectReason::Rejected`] events) that the index could not take as announced.
    pub fn rejected(&self, reason: RejectReason, count: u64) {
        self.stream().rejected[reason as usize].inc_by(count);
    }

    /// Shows how old the latest live batch was when it was applied.
    pub fn set_event_lag(&self, lag: Duration) {
        self.stream().event_lag_seconds.set(lag.as_secs_f64());
    }

    /// Counts events of one kind.
    pub fn events(&self, kind: EventKind, count: u64) {
        self.stream().events[kind as usize].inc_by(count);
    }

    /// Counts one skip of sequence numbers.
    pub fn gap(&self) {
        self.stream().gaps.inc();
    }

    /// Counts batches that no replay brought back.
    pub fn missed_batches(&self, count: u64) {
        self.stream().missed_batches.inc_by(count);
    }

    /// Counts a replay by how it ended.
    pub fn replay(&self, outcome: ReplayOutcome) {
        self.stream().replays[outcome as usize].inc();
    }

    /// Counts one restart of the engine's event stream.
    pub fn restart(&self) {
        self.stream().restarts.inc();
    }

    /// The rank has left: its series go now, though attempts that it still serves hold it.
    pub fn close(&self) {
        self.series.close();
        if let Some(stream) = self.stream.get() {
            stream.series.close();
        }
    }

    fn stream(&self) -> &StreamMetrics {
        self.stream.get_or_init(|| StreamMetrics::new(&self.families, &self.rank))
    }
}

// === impl StreamMetrics ===

impl StreamMetrics {
    fn new(families: &Families, rank: &WorkerRank) -> Self {
        let mut scope = Scope::default();
        let dp_rank = rank.dp_rank.to_string();
        let pair = [rank.worker.as_str(), &dp_rank];
        let with = |last: &'static str| [pair[0], pair[1], last];
        Self {
            rejected: RejectReason::ALL
                .map(|reason| scope.hold(&families.blocks_rejected, with(reason.as_str()))),
            event_lag_seconds: scope.hold(&families.event_lag_seconds, pair),
            events: EventKind::ALL.map(|kind| scope.hold(&families.index_events, with(kind.as_str()))),
            gaps: scope.hold(&families.index_gaps, pair),
            missed_batches: scope.hold(&families.missed_batches, pair),
            replays: ReplayOutcome::ALL
                .map(|outcome| scope.hold(&families.index_replays, with(outcome.as_str()))),
            restarts: scope.hold(&families.index_restarts, pair),
            series: scope,
        }
    }
}
