//! The metrics of the line in front of a pool.
//!
//! Being in line is a guard, so that a request whose client leaves is out of the count at once.

use std::time::Duration;

use kvroute_core::ModelName;
use prometheus::{Histogram, IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;
use crate::{QueueRefusal, WorkerType};

/// Handles of one pool's queue. Cheap to clone; clones are the same metrics, whose series the pool owns.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    pending: IntGauge,
    wait_seconds: Histogram,
    refused: [IntCounter; QueueRefusal::ALL.len()],
}

/// One request in line.
#[derive(Debug)]
#[must_use = "the request counts as waiting while this lives"]
pub struct RequestInLine {
    pending: IntGauge,
}

// === impl QueueMetrics ===

impl QueueMetrics {
    pub(crate) fn new(
        families: &Families,
        model: &ModelName,
        worker_type: WorkerType,
        scope: &mut Scope,
    ) -> Self {
        let model = model.as_str();
        Self {
            pending: scope.hold(&families.queue_pending, [model, worker_type.as_str()]),
            wait_seconds: scope.hold(&families.queue_wait_seconds, [model]),
            refused: QueueRefusal::ALL
                .map(|reason| scope.hold(&families.queue_refused, [model, reason.as_str()])),
        }
    }

    /// A request has to wait: it is in line while the guard lives.
    pub fn entered(&self) -> RequestInLine {
        self.pending.inc();
        RequestInLine { pending: self.pending.clone() }
    }

    /// A request that had to wait is placed, after so long.
    pub fn waited(&self, wait: Duration) {
        self.wait_seconds.observe(wait.as_secs_f64());
    }

    /// Counts a request that is turned away.
    pub fn refused(&self, reason: QueueRefusal) {
        self.refused[reason as usize].inc();
    }
}

// === impl RequestInLine ===

impl Drop for RequestInLine {
    fn drop(&mut self) {
        self.pending.dec();
    }
}
