//! Stages of a request's way to its worker: how many are in each, and how long it takes.
//!
//! Being in a stage is a guard, so that a request that is dropped midway leaves no stage occupied. Only a
//! stage that was passed gives a duration; the caller measures it, since no clock is read here.

use std::time::Duration;

use kvroute_core::Phase;
use prometheus::{Histogram, IntGauge};

use crate::Stage;
use crate::families::Families;
use crate::series::Scope;

/// Handles of all stages in one phase.
#[derive(Clone, Debug)]
pub struct StageMetrics {
    stages: [(IntGauge, Histogram); Stage::VALUES.len()],
}

/// One request inside one stage.
#[derive(Debug)]
pub struct StageInFlight {
    in_flight: IntGauge,
    seconds: Histogram,
}

// === impl StageMetrics ===

impl StageMetrics {
    pub(crate) fn new(families: &Families, phase: Phase, scope: &mut Scope) -> Self {
        let stages = Stage::ALL.map(|stage| {
            let labels = [stage.as_str(), phase.as_str()];
            (scope.hold(&families.stage_requests, labels), scope.hold(&families.stage_seconds, labels))
        });
        Self { stages }
    }

    /// A request enters a stage.
    pub fn enter(&self, stage: Stage) -> StageInFlight {
        let (in_flight, seconds) = &self.stages[stage as usize];
        in_flight.inc();
        StageInFlight { in_flight: in_flight.clone(), seconds: seconds.clone() }
    }
}

// === impl StageInFlight ===

impl StageInFlight {
    /// The stage is passed, after so long.
    pub fn passed(self, took: Duration) {
        self.seconds.observe(took.as_secs_f64());
    }
}

impl Drop for StageInFlight {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}
