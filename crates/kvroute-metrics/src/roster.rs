//! Who is there: the workers of each pool, how they are found, and what became of new configurations.

use std::sync::Arc;
use std::time::Duration;

use prometheus::{Gauge, IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;
use crate::{Presence, ReloadOutcome};

/// How many workers a configured pool has.
#[derive(Debug)]
pub struct CrewMetrics {
    workers: [IntGauge; Presence::ALL.len()],
    _series: Scope,
}

/// How a pool's discovery fares.
#[derive(Debug)]
pub struct DiscoveryMetrics {
    age: Gauge,
    failing: IntGauge,
    _series: Scope,
}

/// What became of new configurations. Cheap to clone; clones are the same counters.
#[derive(Clone, Debug)]
pub struct ReloadMetrics {
    outcomes: Arc<([IntCounter; ReloadOutcome::ALL.len()], Scope)>,
}

// === impl CrewMetrics ===

impl CrewMetrics {
    pub(crate) fn new(families: &Families, pool: &str) -> Self {
        let mut scope = Scope::default();
        let workers =
            Presence::ALL.map(|presence| scope.hold(&families.pool_workers, [pool, presence.as_str()]));
        Self { workers, _series: scope }
    }

    /// Shows how many there are, and how many of them take requests.
    pub fn show(&self, known: usize, ready: usize) {
        for (presence, workers) in [(Presence::Known, known), (Presence::Ready, ready)] {
            self.workers[presence as usize].set(i64::try_from(workers).unwrap_or(i64::MAX));
        }
    }
}

// === impl DiscoveryMetrics ===

impl DiscoveryMetrics {
    pub(crate) fn new(families: &Families, pool: &str) -> Self {
        let (mut scope, families) = (Scope::default(), families.discovery.get());
        let age = scope.hold(&families.age, [pool]);
        Self { age, failing: scope.hold(&families.failing, [pool]), _series: scope }
    }

    /// A look succeeded.
    pub fn succeeded(&self) {
        self.age.set(0.0);
        self.failing.set(0);
    }

    /// A look failed.
    pub fn failed(&self) {
        self.failing.set(1);
    }

    /// Shows how long ago the last look succeeded.
    pub fn set_age(&self, age: Duration) {
        self.age.set(age.as_secs_f64());
    }
}

// === impl ReloadMetrics ===

impl ReloadMetrics {
    pub(crate) fn new(families: &Families) -> Self {
        let mut scope = Scope::default();
        let outcomes =
            ReloadOutcome::ALL.map(|outcome| scope.hold(&families.config_reloads, [outcome.as_str()]));
        Self { outcomes: Arc::new((outcomes, scope)) }
    }

    /// Counts one configuration.
    pub fn count(&self, outcome: ReloadOutcome) {
        self.outcomes.0[outcome as usize].inc();
    }
}
