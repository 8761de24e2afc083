//! The metrics of one rank's index source. Only a rank that has a source has this handle.

use std::time::Duration;

use kvroute_core::{Blocks, WorkerRank};
use prometheus::{Gauge, IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;
use crate::worker::StateGauges;
use crate::{EventKind, ReplayOutcome, SourceState};

/// Handles of one source; dropping it removes the series.
#[derive(Debug)]
pub struct SourceMetrics {
    state: StateGauges<{ SourceState::VALUES.len() }>,
    blocks: IntGauge,
    event_lag_seconds: Gauge,
    events: [IntCounter; EventKind::VALUES.len()],
    gaps: IntCounter,
    missed_batches: IntCounter,
    replays: [IntCounter; ReplayOutcome::VALUES.len()],
    restarts: IntCounter,
    _series: Scope,
}

// === impl SourceMetrics ===

impl SourceMetrics {
    pub(crate) fn new(families: &Families, rank: &WorkerRank, state: SourceState) -> Self {
        let mut scope = Scope::default();
        let dp_rank = rank.dp_rank.to_string();
        let pair = [rank.worker.as_str(), &dp_rank];
        let with = |last: &'static str| [pair[0], pair[1], last];
        let states = SourceState::ALL.map(|value| scope.hold(&families.source_state, with(value.as_str())));
        let metrics = Self {
            state: StateGauges::new(states),
            blocks: scope.hold(&families.index_blocks, pair),
            event_lag_seconds: scope.hold(&families.event_lag_seconds, pair),
            events: EventKind::ALL.map(|kind| scope.hold(&families.index_events, with(kind.as_str()))),
            gaps: scope.hold(&families.index_gaps, pair),
            missed_batches: scope.hold(&families.missed_batches, pair),
            replays: ReplayOutcome::ALL
                .map(|outcome| scope.hold(&families.index_replays, with(outcome.as_str()))),
            restarts: scope.hold(&families.index_restarts, pair),
            _series: scope,
        };
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

    /// Shows how old the latest live batch was when it was applied.
    pub fn set_event_lag(&self, lag: Duration) {
        self.event_lag_seconds.set(lag.as_secs_f64());
    }

    /// Counts events of one kind.
    pub fn events(&self, kind: EventKind, count: u64) {
        self.events[kind as usize].inc_by(count);
    }

    /// Counts one skip of sequence numbers.
    pub fn gap(&self) {
        self.gaps.inc();
    }

    /// Counts batches that no replay brought back.
    pub fn missed_batches(&self, count: u64) {
        self.missed_batches.inc_by(count);
    }

    /// Counts a replay by how it ended.
    pub fn replay(&self, outcome: ReplayOutcome) {
        self.replays[outcome as usize].inc();
    }

    /// Counts one restart of the engine's event stream.
    pub fn restart(&self) {
        self.restarts.inc();
    }
}
