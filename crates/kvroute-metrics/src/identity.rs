//! The metrics of identity: whether a worker's tokens are the router's, and how often that was looked at.

use std::sync::Arc;

use kvroute_core::{ModelName, Tokens, WorkerId};
use prometheus::IntCounter;

use crate::families::Families;
use crate::series::Scope;
use crate::worker::StateGauges;
use crate::{IdentityCheck, IdentityState, TokenizerCache};

/// Handles of one worker's identity; closing or dropping it removes the worker's series.
#[derive(Debug)]
pub struct IdentityMetrics {
    state: StateGauges<{ IdentityState::VALUES.len() }>,
    checks: Arc<CheckCounters>,
    series: Scope,
}

/// What all workers of a model add to.
#[derive(Debug)]
pub(crate) struct CheckCounters {
    results: [IntCounter; IdentityCheck::ALL.len()],
    _series: Scope,
}

/// What a model's tokenizer found in its cache, and what it had to make.
#[derive(Debug)]
pub struct TokenizerCacheMetrics {
    hit: IntCounter,
    miss: IntCounter,
    _series: Scope,
}

// === impl IdentityMetrics ===

impl IdentityMetrics {
    pub(crate) fn new(
        families: &Families,
        model: &ModelName,
        worker: &WorkerId,
        checks: Arc<CheckCounters>,
    ) -> Self {
        let mut series = Scope::default();
        let states = IdentityState::ALL.map(|state| {
            series.hold(&families.identity_state, [model.as_str(), worker.as_str(), state.as_str()])
        });
        let metrics = Self { state: StateGauges::new(states), checks, series };
        metrics.set_state(IdentityState::Unproven);
        metrics
    }

    /// Shows the current state.
    pub fn set_state(&self, state: IdentityState) {
        self.state.set(state as usize);
    }

    /// Counts one comparison.
    pub fn checked(&self, result: IdentityCheck) {
        self.checks.results[result as usize].inc();
    }

    /// The worker has left: its series go now, though attempts that it still serves hold it.
    pub fn close(&self) {
        self.series.close();
    }
}

// === impl CheckCounters ===

impl CheckCounters {
    pub(crate) fn new(families: &Families, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        let results = IdentityCheck::ALL
            .map(|result| scope.hold(&families.identity_checks, [model.as_str(), result.as_str()]));
        Self { results, _series: scope }
    }
}

// === impl TokenizerCacheMetrics ===

impl TokenizerCacheMetrics {
    pub(crate) fn new(families: &Families, model: &ModelName) -> Self {
        let mut scope = Scope::default();
        let mut counter =
            |result: TokenizerCache| scope.hold(&families.tokenizer_cache, [model.as_str(), result.as_str()]);
        let (hit, miss) = (counter(TokenizerCache::Hit), counter(TokenizerCache::Miss));
        Self { hit, miss, _series: scope }
    }

    /// Counts the tokens of a prompt that the cache had, and those that had to be made.
    pub fn looked_up(&self, hit: Tokens, miss: Tokens) {
        self.hit.inc_by(hit.get());
        self.miss.inc_by(miss.get());
    }
}
