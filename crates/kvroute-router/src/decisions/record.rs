//! One decision as `GET /api/decisions` shows it.
//!
//! What does not exist is `null` and never 0: a prompt that was not counted, an index that nobody asked, a cost that no
//! policy weighed.

use std::fmt::Display;

use kvroute_core::{DpRank, Exclusion, ModelName, PlacementReason, Tokens, WorkerId, WorkerRank};
use kvroute_select::{CostTerms, WeightedBlocks};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::kept::Kept;
use super::{Considered, ReportRecord};
use crate::wall_clock::unix_millis;

/// What was decided and why. Holds no text of the request.
#[derive(Clone, Debug, Serialize)]
pub struct DecisionRecord {
    /// Its name; `None` for advice, which nobody keeps.
    pub id: Option<String>,
    /// The request's own name; `None` for advice.
    pub request_id: Option<String>,
    /// When, in milliseconds since the Unix epoch.
    pub at: u64,
    /// The pool's model.
    #[serde(serialize_with = "text")]
    pub model: ModelName,
    /// The policy that decided.
    pub policy: &'static str,
    /// Why this rank, by the names of [`PickReason`](kvroute_select::PickReason).
    pub reason: &'static str,
    /// The worker that was picked.
    #[serde(serialize_with = "text")]
    pub worker_id: WorkerId,
    /// Its rank.
    #[serde(serialize_with = "rank_number")]
    pub dp_rank: DpRank,
    /// F0; `None` where the prompt was not counted.
    pub input_tokens: Option<u64>,
    /// A: the longest cached prefix on any rank, eligible or not; `None` where no index was asked.
    pub best_cached_tokens: Option<u64>,
    /// F2: the longest cached prefix on any rank that could have been picked; `None` where no index was asked.
    pub best_eligible_cached_tokens: Option<u64>,
    /// F3: the cached prefix on the rank that was picked; `None` where no index was asked.
    pub selected_cached_tokens: Option<u64>,
    /// Why A could not be picked, by the reasons of the funnel's stage `eligibility`; `None` where nothing was lost there.
    pub eligibility_reason: Option<&'static str>,
    /// Why F2 was not picked, by the reasons of the funnel's stage `placement`; `None` where nothing was lost there.
    pub placement_reason: Option<&'static str>,
    /// How long the request stood in line before, in seconds.
    pub waited_seconds: f64,
    /// Tokens in a block of `cost` and `terms`: the pool's smallest size.
    pub block_size: u32,
    /// How many candidates could have been picked.
    pub eligible: usize,
    /// The candidates that are kept: the picked one, then the others from the cheapest on.
    pub candidates: Vec<CandidateRecord>,
    /// How many candidates are not kept.
    pub left_out: usize,
    /// What each shadow policy would have picked.
    pub shadows: Vec<ShadowRecord>,
    /// What came of it; `None` until the attempt is over.
    pub report: Option<ReportRecord>,
}

/// One rank as a decision saw it.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateRecord {
    /// The worker.
    #[serde(serialize_with = "text")]
    pub worker_id: WorkerId,
    /// Its rank.
    #[serde(serialize_with = "rank_number")]
    pub dp_rank: DpRank,
    /// What the index believes to be cached there, raw; `None` where no index was asked.
    pub cached_tokens: Option<u64>,
    /// Whether that was kept out of the cost because the source is in doubt.
    pub credit_withheld: bool,
    /// Tokens behind the cached ones that unfinished prompts there are about to bring.
    pub expected_tokens: u64,
    /// What it was given lately, fading with time.
    pub recent_tokens: u64,
    /// Attempts in flight.
    pub active_requests: u64,
    /// Prompt tokens that are booked there and not computed yet.
    pub prefill_tokens: u64,
    /// Blocks of the sequences that it runs, shared ones once, in blocks of its own size.
    pub decode_blocks: u64,
    /// Tokens of context that those sequences read at every step, each its own.
    pub context_tokens: u64,
    /// What placing the request there would have cost; `None` where it was excluded or no cost was weighed.
    pub cost: Option<f64>,
    /// What that cost is made of.
    pub terms: Terms,
    /// Why it could not be picked; `None` where it could.
    pub excluded: Option<&'static str>,
}

/// The terms of a cost by their names, in blocks after weighting; an empty object where no cost was weighed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms(pub Option<CostTerms>);

/// What a policy would have picked that nobody obeys.
#[derive(Clone, Debug, Serialize)]
pub struct ShadowRecord {
    /// Its name.
    pub policy: &'static str,
    /// The worker; `None` where it would have found none.
    #[serde(serialize_with = "text_or_null")]
    pub worker_id: Option<WorkerId>,
    /// Its rank.
    #[serde(serialize_with = "rank_number_or_null")]
    pub dp_rank: Option<DpRank>,
    /// The cached prefix there; `None` where no index was asked.
    pub selected_cached_tokens: Option<u64>,
}

// === impl DecisionRecord ===

impl DecisionRecord {
    /// Keeps of a decision the picked candidate, the best holder and then the cheapest, at most `keep` in all.
    pub(crate) fn of(considered: &Considered<'_>, keep: usize) -> Self {
        let Kept { positions, eligible, block_size } = Kept::of(considered, keep);
        let picked = &considered.ranks[considered.picked].name;
        Self {
            id: None,
            request_id: None,
            at: unix_millis(),
            model: considered.model.clone(),
            policy: considered.policy,
            reason: considered.reason.as_str(),
            worker_id: picked.worker.clone(),
            dp_rank: picked.dp_rank,
            input_tokens: considered.input.map(Tokens::get),
            best_cached_tokens: considered.stages.map(|stages| stages.anywhere.get()),
            best_eligible_cached_tokens: considered.stages.map(|stages| stages.best.get()),
            selected_cached_tokens: considered.stages.map(|stages| stages.selected.get()),
            eligibility_reason: considered.given_up.eligibility.map(Exclusion::as_str),
            placement_reason: considered.given_up.placement.map(PlacementReason::as_str),
            waited_seconds: considered.waited.as_secs_f64(),
            block_size,
            eligible,
            left_out: considered.candidates.len() - positions.len(),
            candidates: positions.iter().map(|&position| CandidateRecord::of(considered, position)).collect(),
            shadows: considered.shadows.iter().map(|shadow| ShadowRecord::of(considered, *shadow)).collect(),
            report: None,
        }
    }
}

// === impl CandidateRecord ===

impl CandidateRecord {
    fn of(considered: &Considered<'_>, position: usize) -> Self {
        let rank = &considered.ranks[position];
        let candidate = &considered.candidates[position];
        let cached = considered.cached_on(position);
        let cost = considered.cost_of(position);
        let WorkerRank { worker, dp_rank } = &rank.name;
        let is_unused = !cached.unwrap_or_default().is_zero() && candidate.cached.total().is_zero();
        Self {
            worker_id: worker.clone(),
            dp_rank: *dp_rank,
            cached_tokens: cached.map(Tokens::get),
            credit_withheld: is_unused && !rank.has_credit(),
            expected_tokens: candidate.expected.get(),
            recent_tokens: candidate.recent.get(),
            active_requests: candidate.load.active_requests,
            prefill_tokens: candidate.load.prefill_tokens.get(),
            decode_blocks: candidate.load.decode_blocks.get(),
            context_tokens: candidate.context.get(),
            cost: cost.map(|cost| cost.total.get()),
            terms: Terms(cost.map(|cost| cost.terms)),
            excluded: candidate.excluded.map(Exclusion::as_str),
        }
    }
}

// === impl ShadowRecord ===

impl ShadowRecord {
    fn of(considered: &Considered<'_>, (policy, picked): (&'static str, Option<usize>)) -> Self {
        let name = picked.and_then(|position| considered.ranks.get(position)).map(|rank| rank.name.clone());
        Self {
            policy,
            dp_rank: name.as_ref().map(|name| name.dp_rank),
            worker_id: name.map(|name| name.worker),
            selected_cached_tokens: picked
                .and_then(|position| considered.cached_on(position))
                .map(Tokens::get),
        }
    }
}

// === impl Terms ===

impl Terms {
    /// Each term by its name, in the order in which they make the cost.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, WeightedBlocks)> + use<> {
        self.0.into_iter().flat_map(|terms| {
            let CostTerms { backlog, request, credit, expected, prefill, decode, requests, recent } = terms;
            [
                ("backlog", backlog),
                ("request", request),
                ("credit", credit),
                ("expected", expected),
                ("prefill", prefill),
                ("decode", decode),
                ("requests", requests),
                ("recent", recent),
            ]
        })
    }
}

impl Serialize for Terms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, blocks) in self.named() {
            map.serialize_entry(name, &blocks.get())?;
        }
        map.end()
    }
}

fn text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn text_or_null<S: Serializer>(value: &Option<impl Display>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn rank_number<S: Serializer>(rank: &DpRank, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(rank.get())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn rank_number_or_null<S: Serializer>(rank: &Option<DpRank>, serializer: S) -> Result<S::Ok, S::Error> {
    rank.map(DpRank::get).serialize(serializer)
}
