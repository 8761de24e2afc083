//! What is told of the sharing between replicas.

use kvroute_cluster::SharingWatcher;
use kvroute_core::{Direction, MessageResult, SharingState};
use kvroute_metrics::SharingMetrics;

/// Moves the metrics of the sharing.
#[derive(Debug)]
pub(crate) struct SharingTeller(pub(crate) SharingMetrics);

impl SharingWatcher for SharingTeller {
    fn state(&self, state: SharingState) {
        self.0.state(state);
    }

    fn message(&self, direction: Direction, result: MessageResult) {
        self.0.message(direction, result);
    }

    fn dropped(&self, messages: u64) {
        self.0.dropped(messages);
    }

    fn peers(&self, peers: usize) {
        self.0.peers(peers);
    }
}
