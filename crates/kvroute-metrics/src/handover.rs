//! The metrics of requests that pass from one worker to another.

use kvroute_core::{ModelName, Tokens};
use prometheus::IntCounter;

use crate::families::Families;
use crate::series::Scope;
use crate::{MigrationReason, PrefillFallbackReason};

/// Migrations of one model, by reason.
#[derive(Debug)]
pub(crate) struct MigrationCounters {
    reasons: [IntCounter; MigrationReason::ALL.len()],
    _series: Scope,
}

/// What became of prompts that prefill workers should compute.
#[derive(Debug)]
pub(crate) struct PrefillCounters {
    fallbacks: [IntCounter; PrefillFallbackReason::ALL.len()],
    stranded: IntCounter,
    _series: Scope,
}

// === impl MigrationCounters ===

impl MigrationCounters {
    pub(crate) fn new(families: &Families, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        let reasons = MigrationReason::ALL
            .map(|reason| scope.hold(&families.migrations, [model.as_str(), reason.as_str()]));
        Self { reasons, _series: scope }
    }

    pub(crate) fn migrated(&self, reason: MigrationReason) {
        self.reasons[reason as usize].inc();
    }
}

// === impl PrefillCounters ===

impl PrefillCounters {
    pub(crate) fn new(families: &Families, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        let fallbacks = PrefillFallbackReason::ALL
            .map(|reason| scope.hold(&families.prefill_fallbacks, [model.as_str(), reason.as_str()]));
        let stranded = scope.hold(&families.stranded_prefill, [model.as_str()]);
        Self { fallbacks, stranded, _series: scope }
    }

    pub(crate) fn fell_back(&self, reason: PrefillFallbackReason) {
        self.fallbacks[reason as usize].inc();
    }

    pub(crate) fn stranded(&self, tokens: Tokens) {
        self.stranded.inc_by(tokens.get());
    }
}
