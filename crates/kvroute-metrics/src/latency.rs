//! Time that the router itself adds.

use std::time::Duration;

use kvroute_core::closed_label;
use prometheus::Histogram;

use crate::families::Families;
use crate::series::Scope;

closed_label! {
    /// Where the router adds time.
    LatencyPart {
        /// From a request's headers until it is handed to the HTTP client, without its wait in the queue.
        BeforeDispatch = "before_dispatch",
        /// From the arrival of a piece of a stream until it is handed on.
        PerChunk = "per_chunk",
    }
}

/// Handles of the histogram, one a part.
#[derive(Clone, Debug)]
pub struct AddedLatency([Histogram; LatencyPart::VALUES.len()]);

// === impl AddedLatency ===

impl AddedLatency {
    pub(crate) fn new(families: &Families, scope: &mut Scope) -> Self {
        Self(LatencyPart::ALL.map(|part| scope.hold(&families.added_latency_seconds, [part.as_str()])))
    }

    /// The router added so much.
    pub fn added(&self, part: LatencyPart, time: Duration) {
        self.0[part as usize].observe(time.as_secs_f64());
    }
}
