//! What is told of a history: how full it is, how far back it reaches, and what it learned.
//!
//! Families without labels are sums over all pools that have a history. Each pool adds what it shows last, and takes exactly
//! that away again when it goes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kvroute_core::{BlockSize, Blocks, ModelName, SharingState, Tokens};
use kvroute_funnel::HistoryObservation;
use parking_lot::Mutex;
use prometheus::{Gauge, IntCounter, IntGauge};

use crate::families::Families;
use crate::series::Scope;
use crate::totals::Totals;
use crate::worker::StateGauges;

/// The bound of a pool's history, which it never exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// Entries that it has room for.
    pub capacity: Blocks,
    /// Memory that it may hold, in bytes, everything included.
    pub bytes: usize,
}

/// How a pool's history stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLevels {
    /// Entries that it holds.
    pub blocks: Blocks,
    /// Tokens of an entry; `None` until the block size is known, and then there are no entries.
    pub block_size: Option<BlockSize>,
    /// Memory that it really holds, in bytes.
    pub bytes: usize,
    /// Entries that it has room for.
    pub capacity: Blocks,
    /// Memory that it may hold, in bytes.
    pub capacity_bytes: usize,
    /// Age of its oldest entry; `None` while it has none.
    pub oldest: Option<Duration>,
}

/// Handles of one pool's history. Dropping the last clone of its `Arc` removes its series and its part of the sums.
#[derive(Debug)]
pub struct HistoryMetrics {
    families: Arc<Families>,
    totals: Arc<Totals>,
    model: ModelName,
    shown: Mutex<Share>,
    untracked: IntCounter,
    oldest: Mutex<Option<(Gauge, Scope)>>,
    snapshot: OnceLock<(Gauge, Scope)>,
    _series: Scope,
}

/// What all pools with a history share: made with the first of them, never removed.
#[derive(Debug)]
pub(crate) struct HistoryTotals {
    cached: IntCounter,
    observed_input: IntCounter,
    observations: [IntCounter; HistoryObservation::ALL.len()],
    levels: [IntGauge; LEVELS],
    sharing: StateGauges<{ SharingState::VALUES.len() }>,
    _series: Scope,
}

/// Entries, their tokens, bytes, and the bound of entries and bytes: the order of the gauges.
const LEVELS: usize = 5;

/// One pool's part of the sums.
type Share = [i64; LEVELS];

// === impl HistoryLevels ===

impl HistoryLevels {
    fn share(&self) -> Share {
        let tokens = self.block_size.map_or(Tokens::ZERO, |size| size.tokens(self.blocks));
        let bytes = [self.bytes, self.capacity_bytes].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        [
            self.blocks.get().cast_signed(),
            tokens.get().cast_signed(),
            bytes[0],
            self.capacity.get().cast_signed(),
            bytes[1],
        ]
    }
}

impl From<HistoryBounds> for HistoryLevels {
    fn from(bounds: HistoryBounds) -> Self {
        Self {
            blocks: Blocks::ZERO,
            block_size: None,
            bytes: 0,
            capacity: bounds.capacity,
            capacity_bytes: bounds.bytes,
            oldest: None,
        }
    }
}

// === impl HistoryMetrics ===

impl HistoryMetrics {
    pub(crate) fn new(
        families: &Arc<Families>,
        totals: &Arc<Totals>,
        model: &ModelName,
        bounds: HistoryBounds,
    ) -> Self {
        let mut scope = Scope::default();
        let metrics = Self {
            untracked: scope.hold(&families.history.get().untracked_output, [model.as_str()]),
            families: Arc::clone(families),
            totals: Arc::clone(totals),
            model: model.clone(),
            shown: Mutex::default(),
            oldest: Mutex::default(),
            snapshot: OnceLock::new(),
            _series: scope,
        };
        metrics.show(&bounds.into());
        metrics
    }

    /// Shows how the history stands. To be called from time to time; not on the way of a request.
    pub fn show(&self, levels: &HistoryLevels) {
        self.move_sums(levels.share());
        let mut oldest = self.oldest.lock();
        match levels.oldest {
            Some(age) => {
                let (gauge, _) = oldest.get_or_insert_with(|| {
                    let mut scope = Scope::default();
                    let family = &self.families.history.get().oldest_entry_age;
                    (scope.hold(family, [self.model.as_str()]), scope)
                });
                gauge.set(age.as_secs_f64());
            }
            None => *oldest = None,
        }
    }

    /// Counts generated tokens of a request that was taught without them, because its engine told no ids.
    pub fn untracked(&self, tokens: Tokens) {
        self.untracked.inc_by(tokens.get());
    }

    /// Shows how long the snapshot that was just written took.
    pub fn snapshot_written(&self, took: Duration) {
        let (gauge, _) = self.snapshot.get_or_init(|| {
            let mut scope = Scope::default();
            (scope.hold(&self.families.history.get().snapshot_seconds, [self.model.as_str()]), scope)
        });
        gauge.set(took.as_secs_f64());
    }

    fn move_sums(&self, share: Share) {
        let mut shown = self.shown.lock();
        let before = std::mem::replace(&mut *shown, share);
        for (gauge, (now, before)) in
            self.totals.history(&self.families).levels.iter().zip(share.into_iter().zip(before))
        {
            gauge.add(now - before);
        }
    }
}

impl Drop for HistoryMetrics {
    fn drop(&mut self) {
        self.move_sums(Share::default());
    }
}

// === impl HistoryTotals ===

impl HistoryTotals {
    pub(crate) fn new(families: &Families) -> Self {
        let (mut scope, families) = (Scope::default(), families.history.get());
        let sharing = SharingState::ALL.map(|state| scope.hold(&families.sharing, [state.as_str()]));
        let levels = [
            &families.unique_hashes,
            &families.represented_tokens,
            &families.estimated_bytes,
            &families.capacity_blocks,
            &families.capacity_bytes,
        ];
        let totals = Self {
            cached: scope.hold(&families.cached, []),
            observed_input: scope.hold(&families.observed_input, []),
            observations: HistoryObservation::ALL
                .map(|observation| scope.hold(&families.observations, [observation.as_str()])),
            levels: levels.map(|family| scope.hold(family, [])),
            sharing: StateGauges::new(sharing),
            _series: scope,
        };
        totals.share(SharingState::Off);
        totals
    }

    /// An attempt was observed: its F1, and its input.
    pub(crate) fn opened(&self, history: Tokens, input: Tokens) {
        self.observed_input.inc_by(input.get());
        self.cached.inc_by(history.get());
    }

    /// An observed attempt is over.
    pub(crate) fn closed(&self, observation: HistoryObservation) {
        self.observations[observation as usize].inc();
    }

    /// Shows whether the replicas share what they learn.
    pub(crate) fn share(&self, state: SharingState) {
        self.sharing.set(state as usize);
    }
}
