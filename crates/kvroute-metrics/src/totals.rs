//! Handles on the families that belong to no pool: what all models share.

use std::sync::{Arc, OnceLock};

use kvroute_core::Phase;
use prometheus::{Histogram, IntCounter};

use crate::families::Families;
use crate::history::HistoryTotals;
use crate::series::Scope;
use crate::sharing::SharingCounters;
use crate::{AddedLatency, ConnectionMetrics, OverheadMetrics, ReloadMetrics, StageMetrics, WorkerType};

/// Resolved once, when the metrics are made; never removed.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) bookings: IntCounter,
    pub(crate) dispatched_attempts: IntCounter,
    pub(crate) first_token_seconds: Histogram,
    pub(crate) inter_token_seconds: Histogram,
    pub(crate) output_tokens: Histogram,
    pub(crate) hit_rate: Histogram,
    pub(crate) overhead: OverheadMetrics,
    pub(crate) added_latency: AddedLatency,
    pub(crate) reloads: ReloadMetrics,
    pub(crate) connections: ConnectionMetrics,
    history: OnceLock<HistoryTotals>,
    sharing: OnceLock<Arc<SharingCounters>>,
    stages: [OnceLock<(StageMetrics, Scope)>; Phase::ALL.len()],
    non_max_overlap: [IntCounter; WorkerType::VALUES.len()],
    overlap_blocks_lost: [Histogram; WorkerType::VALUES.len()],
    _series: Scope,
}

// === impl Totals ===

impl Totals {
    pub(crate) fn new(families: &Families) -> Self {
        let mut scope = Scope::default();
        let build_info = scope.hold(&families.build_info, [env!("CARGO_PKG_VERSION")]);
        build_info.set(1);
        let non_max_overlap =
            WorkerType::ALL.map(|kind| scope.hold(&families.non_max_overlap, [kind.as_str()]));
        let overlap_blocks_lost =
            WorkerType::ALL.map(|kind| scope.hold(&families.overlap_blocks_lost, [kind.as_str()]));
        Self {
            bookings: scope.hold(&families.bookings, []),
            dispatched_attempts: scope.hold(&families.dispatched_attempts, []),
            first_token_seconds: scope.hold(&families.first_token_seconds, []),
            inter_token_seconds: scope.hold(&families.inter_token_seconds, []),
            output_tokens: scope.hold(&families.output_tokens, []),
            hit_rate: scope.hold(&families.hit_rate, []),
            overhead: OverheadMetrics::new(families, &mut scope),
            added_latency: AddedLatency::new(families, &mut scope),
            reloads: ReloadMetrics::new(families),
            connections: ConnectionMetrics::new(families),
            history: OnceLock::new(),
            sharing: OnceLock::new(),
            stages: Default::default(),
            non_max_overlap,
            overlap_blocks_lost,
            _series: scope,
        }
    }

    /// The stages of a phase, made when the first pool or request has that phase.
    pub(crate) fn stages(&self, families: &Families, phase: Phase) -> &StageMetrics {
        let (stages, _) = self.stages[phase as usize].get_or_init(|| {
            let mut scope = Scope::default();
            (StageMetrics::new(families, phase, &mut scope), scope)
        });
        stages
    }

    /// What all histories share, made when the first pool has one.
    pub(crate) fn history(&self, families: &Families) -> &HistoryTotals {
        self.history.get_or_init(|| HistoryTotals::new(families))
    }

    /// What is told of the other replicas, made when histories are shared.
    pub(crate) fn sharing(&self, families: &Families) -> &Arc<SharingCounters> {
        self.sharing.get_or_init(|| Arc::new(SharingCounters::new(families)))
    }

    /// Counts a selection that gave away weighted overlap.
    pub(crate) fn overlap_lost(&self, worker_type: WorkerType, blocks: f64) {
        self.non_max_overlap[worker_type as usize].inc();
        self.overlap_blocks_lost[worker_type as usize].observe(blocks);
    }
}
