//! The metrics of one model's prefix index. They exist only once there is something to ask it about.

use kvroute_core::ModelName;
use prometheus::{IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;

/// Handles of one index; dropping it removes the series.
#[derive(Debug)]
pub(crate) struct IndexMetrics {
    bytes: IntGauge,
    budget_evictions: IntCounter,
    _series: Scope,
}

// === impl IndexMetrics ===

impl IndexMetrics {
    pub(crate) fn new(families: &Families, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        Self {
            bytes: scope.hold(&families.index_bytes, [model.as_str()]),
            budget_evictions: scope.hold(&families.budget_evictions, [model.as_str()]),
            _series: scope,
        }
    }

    pub(crate) fn set_bytes(&self, bytes: usize) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    pub(crate) fn budget_evicted(&self, copies: u64) {
        self.budget_evictions.inc_by(copies);
    }
}
