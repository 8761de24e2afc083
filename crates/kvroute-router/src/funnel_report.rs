//! The funnel as it is shown outside Prometheus: `GET /api/funnel`, and the shapes that the demo's result shares with it.
//!
//! What does not exist is null, never 0: a stage that no index or no history was asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use kvroute_core::{ModelName, Phase, Tokens};
use kvroute_funnel::{Close, LossStage, ReportOutcome, UncountedReason};
use kvroute_metrics::{CachedTotals, LedgerTotals, Losses, ModelFunnel, PhaseFunnel};
use serde::{Serialize, Serializer};

use crate::funnel_window::Funnels;
use crate::history::Reach;

/// Numbers by name, in the order in which they are told.
#[derive(Clone, Debug, PartialEq)]
pub struct ByName<T>(Vec<(&'static str, T)>);

/// What was lost at each stage of the funnel; `None` where the stage does not exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LostByStage<T> {
    /// F0 − F1. Needs a history.
    pub new: Option<T>,
    /// F1 − A. Needs a history, too.
    pub residency: Option<T>,
    /// F0 − A, of attempts that no history was asked about.
    pub unavailable: Option<T>,
    /// A − F2.
    pub eligibility: Option<T>,
    /// F2 − F3.
    pub placement: Option<T>,
    /// F3 − F4, of the attempts that were compared.
    pub delivery: Option<T>,
}

/// Of which stages the later one had more than the earlier one; `None` where the stage does not exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SurplusByStage<T> {
    /// A − F1. Needs a history.
    pub residency: Option<T>,
    /// F4 − F3, of the attempts that were compared.
    pub delivery: Option<T>,
}

/// `GET /api/funnel`.
#[derive(Clone, Debug, Serialize)]
pub struct FunnelReport {
    /// The time that the rows really cover.
    pub window_seconds: f64,
    /// By model and phase.
    pub rows: Vec<FunnelRow>,
    /// What is told of a model over all its phases.
    pub models: Vec<ModelRow>,
}

/// One model in one phase. Fields are explained in `docs/funnel.md`; all figures are tokens unless their name says otherwise.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "one documentation of the funnel is enough; the names are those of the stages"
)]
pub struct FunnelRow {
    pub model: String,
    pub phase: &'static str,
    pub input_tokens: Option<u64>,
    pub history_cached_tokens: Option<u64>,
    pub best_cached_tokens: Option<u64>,
    pub best_eligible_cached_tokens: Option<u64>,
    pub selected_cached_tokens: Option<u64>,
    pub reused_tokens: u64,
    pub reported_input_tokens: u64,
    pub expected_input_tokens: u64,
    pub uncached_prefill_tokens: u64,
    pub repeated_input_tokens: u64,
    pub ledger_input_tokens: Option<u64>,
    pub compared_predicted_tokens: Option<u64>,
    pub compared_reported_tokens: Option<u64>,
    pub lost: LostByStage<ByName<u64>>,
    pub surplus: SurplusByStage<u64>,
    pub reports: ByName<u64>,
    pub uncounted_attempts: ByName<u64>,
    pub attempts: ByName<u64>,
}

/// One model over all its phases.
#[derive(Clone, Debug, Serialize)]
pub struct ModelRow {
    /// The pool's model.
    pub model: String,
    /// Time that the lost tokens take to be computed, by stage and reason.
    pub lost_prefill_seconds: LostByStage<ByName<f64>>,
    /// How much is remembered of what was ever computed; `None` without a history.
    pub history: Option<HistoryRow>,
}

/// A history, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HistoryRow {
    /// Entries.
    pub blocks: u64,
    /// Entries that it has room for.
    pub capacity_blocks: u64,
    /// Tokens that its entries stand for.
    pub represented_tokens: u64,
    /// How long ago the oldest entry was learned: F1 knows nothing that is older. `None` while it is empty.
    pub oldest_entry_age_seconds: Option<f64>,
    /// How old the oldest entry is in the long run, at the rate of the last minutes: room divided by new blocks a second.
    /// `None` while nothing new comes.
    pub reaches_back_seconds: Option<f64>,
}

// === impl ByName ===

impl<T> FromIterator<(&'static str, T)> for ByName<T> {
    fn from_iter<I: IntoIterator<Item = (&'static str, T)>>(named: I) -> Self {
        Self(named.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for ByName<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

// === impl LostByStage ===

impl<T> LostByStage<T> {
    /// Asks for each stage by the name that its metrics have. Where a history splits the first stage in two, the whole of it
    /// does not exist.
    pub fn each(mut of: impl FnMut(&'static str) -> Option<T>) -> Self {
        let (new, residency) = (of("new"), of("residency"));
        let has_history = new.is_some() || residency.is_some();
        Self {
            new,
            residency,
            unavailable: of("unavailable").filter(|_| !has_history),
            eligibility: of("eligibility"),
            placement: of("placement"),
            delivery: of("delivery"),
        }
    }
}

// === impl SurplusByStage ===

impl<T> SurplusByStage<T> {
    /// Asks for each stage by the name that its metrics have.
    pub fn each(mut of: impl FnMut(&'static str) -> Option<T>) -> Self {
        Self { residency: of("residency"), delivery: of("delivery") }
    }
}

// === impl FunnelReport ===

impl FunnelReport {
    /// Of what was counted in a time.
    pub(crate) fn of(window: Duration, funnels: &Funnels, histories: &BTreeMap<ModelName, Reach>) -> Self {
        let rows = funnels.iter().flat_map(|(model, funnel)| {
            funnel.by_phase().map(|(phase, funnel)| FunnelRow::of(model.as_str(), phase, funnel))
        });
        Self {
            window_seconds: seconds(window),
            rows: rows.collect(),
            models: funnels
                .iter()
                .map(|(model, funnel)| ModelRow::of(model.as_str(), funnel, histories.get(model)))
                .collect(),
        }
    }
}

// === impl FunnelRow ===

impl FunnelRow {
    fn of(model: &str, phase: Phase, funnel: &PhaseFunnel) -> Self {
        let (cached, ledger) = (funnel.cached.as_ref(), funnel.ledger.as_ref());
        let in_cache = |of: fn(&CachedTotals) -> Tokens| cached.map(|cached| of(cached).get());
        let in_ledger = |of: fn(&LedgerTotals) -> Tokens| ledger.map(|ledger| of(ledger).get());
        Self {
            model: model.to_owned(),
            phase: phase.as_str(),
            input_tokens: funnel.input.map(Tokens::get),
            history_cached_tokens: ledger.and_then(|ledger| ledger.history).map(Tokens::get),
            best_cached_tokens: in_ledger(|ledger| ledger.anywhere),
            best_eligible_cached_tokens: in_cache(|cached| cached.best),
            selected_cached_tokens: in_cache(|cached| cached.selected),
            reused_tokens: funnel.reused.get(),
            reported_input_tokens: funnel.reported_input.get(),
            expected_input_tokens: funnel.expected_input.get(),
            uncached_prefill_tokens: funnel.uncached_prefill.get(),
            repeated_input_tokens: funnel.repeated_input.get(),
            ledger_input_tokens: in_ledger(|ledger| ledger.input),
            compared_predicted_tokens: in_ledger(|ledger| ledger.compared_predicted),
            compared_reported_tokens: in_ledger(|ledger| ledger.compared_reported),
            lost: lost(ledger.map(|ledger| &ledger.lost), Tokens::get),
            surplus: SurplusByStage {
                residency: ledger.and_then(|ledger| ledger.residency_surplus).map(Tokens::get),
                delivery: in_ledger(|ledger| ledger.surplus),
            },
            reports: named(ReportOutcome::ALL.map(ReportOutcome::as_str), funnel.reports),
            uncounted_attempts: named(UncountedReason::ALL.map(UncountedReason::as_str), funnel.uncounted),
            attempts: named(Close::ALL.map(Close::as_str), funnel.attempts),
        }
    }
}

// === impl ModelRow ===

impl ModelRow {
    fn of(model: &str, funnel: &ModelFunnel, history: Option<&Reach>) -> Self {
        Self {
            model: model.to_owned(),
            history: history.map(HistoryRow::of),
            lost_prefill_seconds: lost(funnel.lost_seconds.as_ref(), |seconds| seconds),
        }
    }
}

// === impl HistoryRow ===

impl HistoryRow {
    fn of(reach: &Reach) -> Self {
        let Reach { levels, at_present_rate } = reach;
        Self {
            blocks: levels.blocks.get(),
            capacity_blocks: levels.capacity.get(),
            represented_tokens: levels.block_size.map_or(0, |size| size.tokens(levels.blocks).get()),
            oldest_entry_age_seconds: levels.oldest.map(seconds),
            reaches_back_seconds: at_present_rate.map(seconds),
        }
    }
}

/// To the millisecond: more digits would only be noise.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Without a ledger no stage exists.
fn lost<T: Copy, V>(losses: Option<&Losses<T>>, value: impl Fn(T) -> V) -> LostByStage<ByName<V>> {
    LostByStage::each(|name| {
        let stage = LossStage::ALL.into_iter().find(|stage| stage.as_str() == name)?;
        Some(losses?.of_stage(stage)?.map(|(reason, lost)| (reason, value(lost))).collect())
    })
}

fn named<const N: usize>(names: [&'static str; N], values: [u64; N]) -> ByName<u64> {
    names.into_iter().zip(values).collect()
}
