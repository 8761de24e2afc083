//! What is told of the other replicas, where histories are shared. Without sharing its families do not exist.

use std::sync::Arc;

use kvroute_core::{Direction, MessageResult, SharingState};
use prometheus::{IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;
use crate::totals::Totals;

/// Handles of the sharing. Cheap to clone; clones are the same metrics.
#[derive(Clone, Debug)]
pub struct SharingMetrics {
    families: Arc<Families>,
    totals: Arc<Totals>,
    counters: Arc<SharingCounters>,
}

/// Made once, never removed.
#[derive(Debug)]
pub(crate) struct SharingCounters {
    messages: [[IntCounter; MessageResult::ALL.len()]; Direction::ALL.len()],
    dropped: IntCounter,
    peers: IntGauge,
    _series: Scope,
}

// === impl SharingMetrics ===

impl SharingMetrics {
    pub(crate) fn new(families: &Arc<Families>, totals: &Arc<Totals>) -> Self {
        let counters = Arc::clone(totals.sharing(families));
        Self { families: Arc::clone(families), totals: Arc::clone(totals), counters }
    }

    /// Shows whether the histories of the replicas are one.
    pub fn state(&self, state: SharingState) {
        self.totals.history(&self.families).share(state);
    }

    /// Counts a message by what became of it.
    pub fn message(&self, direction: Direction, result: MessageResult) {
        self.counters.messages[direction as usize][result as usize].inc();
    }

    /// Counts messages that were not sent because too many waited.
    pub fn dropped(&self, messages: u64) {
        self.counters.dropped.inc_by(messages);
    }

    /// Shows how many other replicas are there.
    pub fn peers(&self, peers: usize) {
        self.counters.peers.set(i64::try_from(peers).unwrap_or(i64::MAX));
    }
}

// === impl SharingCounters ===

impl SharingCounters {
    pub(crate) fn new(families: &Families) -> Self {
        let (mut scope, families) = (Scope::default(), families.sharing.get());
        Self {
            messages: Direction::ALL.map(|direction| {
                MessageResult::ALL
                    .map(|result| scope.hold(&families.messages, [direction.as_str(), result.as_str()]))
            }),
            dropped: scope.hold(&families.dropped, []),
            peers: scope.hold(&families.peers, []),
            _series: scope,
        }
    }
}
