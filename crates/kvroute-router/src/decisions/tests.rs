use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{
    BlockSize, Blocks, CachedTokens, DpRank, ModelName, RankSlot, Tokens, WorkerLoad, WorkerRank, WorkerRole,
};
use kvroute_engine::EngineKind;
use kvroute_funnel::{CachedStages, Close, Closing, ReportOutcome};
use kvroute_metrics::{Metrics, MetricsOptions, WorkerType};
use kvroute_select::{Candidate, Cost, CostTerms, Exclusion, PickReason, WeightedBlocks};
use proptest::prelude::*;

use super::*;
use crate::config::WorkerConfig;
use crate::desk::GivenUp;
use crate::rank::RankParams;
use crate::worker::Worker;

/// What a decision of so many ranks saw; each test changes what it is about.
pub(super) struct Seen {
    pub(super) model: ModelName,
    pub(super) ranks: Vec<Arc<Rank>>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) costs: Vec<Option<Cost>>,
    pub(super) cached: Vec<CachedTokens>,
    pub(super) picked: usize,
    pub(super) shadows: Vec<(&'static str, Option<usize>)>,
}

impl Seen {
    /// Ranks `w0`, `w1`, … with blocks of 16 tokens, of which each costs more than the one before.
    pub(super) fn of(ranks: usize) -> Self {
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        let names = (0..ranks).map(|number| format!("http://w{number}"));
        let ranks: Vec<_> =
            names.enumerate().map(|(slot, url)| Arc::new(rank(slot, &url, &metrics))).collect();
        Self {
            model: ModelName::new("m"),
            candidates: ranks.iter().map(|rank| candidate(rank)).collect(),
            costs: (0..ranks.len()).map(|place| Some(cost(place as f64))).collect(),
            cached: vec![CachedTokens::NONE; ranks.len()],
            picked: 0,
            shadows: Vec::new(),
            ranks,
        }
    }

    pub(super) fn exclude(&mut self, position: usize, why: Exclusion) {
        self.candidates[position].excluded = Some(why);
        self.costs[position] = None;
    }

    pub(super) fn holds(&mut self, position: usize, tokens: u64) {
        self.cached[position].device = Tokens::new(tokens);
        self.candidates[position].cached = self.cached[position];
    }

    pub(super) fn considered(&self) -> Considered<'_> {
        let longest = |eligible_only: bool| {
            let held = self.cached.iter().zip(&self.candidates);
            let counted = held.filter(|(_, candidate)| !eligible_only || candidate.is_eligible());
            counted.map(|(cached, _)| cached.total()).max().unwrap_or_default()
        };
        Considered {
            model: &self.model,
            policy: "kv",
            reason: PickReason::LowestCost,
            ranks: &self.ranks,
            candidates: &self.candidates,
            costs: &self.costs,
            cached: Some(&self.cached),
            picked: self.picked,
            input: Some(Tokens::new(1000)),
            stages: Some(CachedStages {
                anywhere: longest(false),
                best: longest(true),
                selected: self.cached[self.picked].total(),
            }),
            given_up: GivenUp::default(),
            shadows: self.shadows.clone(),
            waited: Duration::from_millis(1500),
        }
    }

    pub(super) fn record(&self, keep: usize) -> DecisionRecord {
        DecisionRecord::of(&self.considered(), keep)
    }
}

fn rank(slot: usize, url: &str, metrics: &Metrics) -> Rank {
    let worker = Worker::new(WorkerConfig::at(url), metrics);
    let name = WorkerRank::new(worker.id().clone(), DpRank::new(0));
    Rank::new(RankParams {
        slot: RankSlot::new(slot as u32),
        metrics: metrics.rank(&name, WorkerType::Decode),
        name,
        worker: Arc::new(worker),
        engine: EngineKind::Vllm,
        role: WorkerRole::Aggregated,
        bootstrap_port: 0,
        ranks_of_worker: 1,
        block_size: BlockSize::DEFAULT,
        source: None,
        told_load: None,
        busy_above: None,
        adapters: [].into(),
    })
}

fn candidate(rank: &Rank) -> Candidate {
    Candidate {
        slot: rank.slot,
        key: rank.key,
        block_size: rank.block_size(),
        cached: CachedTokens::NONE,
        expected: Tokens::ZERO,
        load: WorkerLoad::default(),
        context: Tokens::ZERO,
        recent: Tokens::ZERO,
        excluded: None,
    }
}

fn cost(total: f64) -> Cost {
    let terms = CostTerms { prefill: WeightedBlocks::new(total), ..CostTerms::default() };
    Cost { terms, total: WeightedBlocks::new(total) }
}

fn kept(record: &DecisionRecord) -> Vec<&str> {
    record.candidates.iter().map(|candidate| candidate.worker_id.as_str()).collect()
}

#[test]
fn the_picked_one_the_best_holder_and_then_the_cheapest_are_kept() {
    let mut seen = Seen::of(9);
    seen.picked = 4;
    seen.holds(7, 320);
    let record = seen.record(4);
    assert_eq!(kept(&record), ["w4", "w0", "w1", "w7"]);
    assert_eq!((record.eligible, record.left_out), (9, 5));
    assert_eq!(kept(&seen.record(1)), ["w4"]);
    assert_eq!(kept(&seen.record(0)), ["w4"], "the picked one is always told");
    assert_eq!(kept(&seen.record(100)).len(), 9);
}

#[test]
fn an_excluded_best_holder_is_kept_beside_the_best_that_could_be_picked() {
    let mut seen = Seen::of(9);
    seen.holds(5, 160);
    seen.holds(8, 320);
    seen.exclude(8, Exclusion::Unhealthy);
    let record = seen.record(4);
    assert_eq!(kept(&record), ["w0", "w1", "w5", "w8"]);
    assert_eq!(record.candidates[3].excluded, Some("unhealthy"));
    assert_eq!(record.candidates[3].cost, None);
    assert_eq!(record.eligible, 8);
    let cached =
        [record.best_cached_tokens, record.best_eligible_cached_tokens, record.selected_cached_tokens];
    assert_eq!(cached, [Some(320), Some(160), Some(0)]);
}

#[test]
fn where_nothing_is_weighed_the_first_ranks_stand_for_the_cheapest() {
    let mut seen = Seen::of(5);
    seen.costs.clear();
    seen.picked = 3;
    seen.candidates[0].excluded = Some(Exclusion::Adapter);
    let record = seen.record(3);
    assert_eq!(kept(&record), ["w3", "w1", "w2"]);
    assert!(record.candidates.iter().all(|candidate| candidate.cost.is_none()));
    assert_eq!(record.candidates[0].terms.named().count(), 0);
}

#[test]
fn what_a_candidate_saw_is_told_whole() {
    let mut seen = Seen::of(2);
    seen.holds(1, 64);
    let candidate = &mut seen.candidates[1];
    candidate.expected = Tokens::new(32);
    candidate.recent = Tokens::new(77);
    candidate.context = Tokens::new(500);
    candidate.load =
        WorkerLoad { prefill_tokens: Tokens::new(400), decode_blocks: Blocks::new(9), active_requests: 3 };
    let record = seen.record(8);
    let other = &record.candidates[1];
    let tokens = [other.expected_tokens, other.recent_tokens, other.prefill_tokens, other.context_tokens];
    assert_eq!(tokens, [32, 77, 400, 500]);
    assert_eq!((other.decode_blocks, other.active_requests), (9, 3));
    assert_eq!((other.cached_tokens, other.cost), (Some(64), Some(1.0)));
    assert_eq!((record.block_size, record.waited_seconds), (16, 1.5));
    assert!(record.at > 1_600_000_000_000, "milliseconds since the epoch, not {}", record.at);
}

#[test]
fn withheld_credit_still_shows_what_the_index_believes() {
    let mut seen = Seen::of(2);
    seen.cached[1].host = Tokens::new(48); // The candidate was given nothing of it, and has no source to be trusted.
    let record = seen.record(8);
    let told = |at: usize| (record.candidates[at].cached_tokens, record.candidates[at].credit_withheld);
    assert_eq!([told(0), told(1)], [(Some(0), false), (Some(48), true)]);
}

#[test]
fn what_does_not_exist_is_absent_and_not_zero() {
    let seen = Seen::of(2);
    let considered = Considered { cached: None, input: None, stages: None, ..seen.considered() };
    let record = DecisionRecord::of(&considered, 8);
    let stages = [
        record.input_tokens,
        record.best_cached_tokens,
        record.best_eligible_cached_tokens,
        record.selected_cached_tokens,
        record.candidates[0].cached_tokens,
    ];
    assert_eq!(stages, [None; 5]);
}

#[test]
fn shadows_tell_what_they_would_have_picked_and_what_was_cached_there() {
    let mut seen = Seen::of(3);
    seen.holds(2, 96);
    seen.shadows = vec![("round-robin", Some(2)), ("direct", None), ("gone", Some(9))];
    let shadows = seen.record(1).shadows;
    let told = |at: usize| {
        let shadow: &ShadowRecord = &shadows[at];
        (shadow.policy, shadow.worker_id.as_ref().map(|id| id.as_str()), shadow.selected_cached_tokens)
    };
    assert_eq!(told(0), ("round-robin", Some("w2"), Some(96)));
    assert_eq!(told(1), ("direct", None, None));
    assert_eq!(told(2), ("gone", None, None));
}

#[test]
fn a_report_is_compared_with_the_promise_only_where_both_are_known() {
    let closing = |outcome, reused: Option<u64>| Closing {
        close: Close::Completed,
        dispatched: true,
        outcome: Some(outcome),
        reused: reused.map(Tokens::new),
        observation: None,
    };
    let lost = |closing, predicted: Option<u64>| {
        ReportRecord::of(&closing, Some(100), predicted.map(Tokens::new)).lost_tokens
    };
    assert_eq!(lost(closing(ReportOutcome::Reported, Some(64)), Some(80)), Some(16));
    assert_eq!(lost(closing(ReportOutcome::Reported, Some(96)), Some(80)), Some(0));
    assert_eq!(lost(closing(ReportOutcome::Reported, Some(64)), None), None);
    assert_eq!(lost(closing(ReportOutcome::Impossible, Some(900)), Some(80)), None);
    assert_eq!(lost(closing(ReportOutcome::Missing, None), Some(80)), None);
    let record = ReportRecord::of(&closing(ReportOutcome::Missing, None), None, None);
    assert_eq!((record.outcome, record.report, record.reused_tokens), ("completed", Some("missing"), None));
}

/// Sorting everything, which the record must not do but must agree with.
fn kept_by_sorting(seen: &Seen, limit: usize) -> Vec<String> {
    let holder = |eligible_only: bool| {
        let mut best: Option<usize> = None;
        for (position, cached) in seen.cached.iter().enumerate() {
            let counts = seen.candidates[position].is_eligible() || !eligible_only;
            let longest = best.map_or(Tokens::ZERO, |best| seen.cached[best].total());
            if counts && cached.total() > longest {
                best = Some(position);
            }
        }
        best
    };
    let rating = |position: &usize| match (seen.candidates[*position].is_eligible(), seen.costs[*position]) {
        (true, Some(cost)) => cost.total.get(),
        _ => f64::INFINITY,
    };
    let mut by_cost: Vec<usize> = (0..seen.ranks.len()).collect();
    by_cost.sort_by(|one, other| rating(one).total_cmp(&rating(other)));
    let mut kept = vec![seen.picked];
    for position in holder(true).into_iter().chain(holder(false)).chain(by_cost.clone()) {
        if kept.len() < limit && !kept.contains(&position) {
            kept.push(position);
        }
    }
    let others = by_cost.iter().filter(|position| kept[1..].contains(position));
    [&seen.picked].into_iter().chain(others).map(|position| format!("w{position}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_pass_keeps_what_sorting_would(
        ranks in prop::collection::vec((0_u8..6, 0_u64..4, prop::bool::weighted(0.2)), 1..40),
        picked in any::<prop::sample::Index>(),
        limit in 1_usize..12,
    ) {
        let mut seen = Seen::of(ranks.len());
        for (position, (total, cached, is_excluded)) in ranks.iter().enumerate() {
            seen.costs[position] = Some(cost(f64::from(*total)));
            seen.holds(position, cached * 16);
            if *is_excluded {
                seen.exclude(position, Exclusion::Pinned);
            }
        }
        seen.picked = picked.index(ranks.len());
        let record = seen.record(limit);
        prop_assert_eq!(kept(&record), kept_by_sorting(&seen, limit));
    }
}
