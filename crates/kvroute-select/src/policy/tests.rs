mod burst;
mod consistent_hash;
mod direct;
mod kv;
mod power_of_two;
mod round_robin;
mod sticky;

use std::time::Duration;

use kvroute_core::{BlockSize, Blocks, CachedTokens, RankKey, RankSlot, Tokens, WorkerLoad};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{Affinity, AffinityKey, CostWeights, Exclusion};

fn fresh(name: &str) -> Result<Box<dyn Policy>, UnknownPolicy> {
    by_name(name, &PolicyOptions::default())
}

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn request(temperature: f64) -> RequestShape {
    RequestShape {
        input: Tokens::new(1000),
        unit: BlockSize::DEFAULT,
        weights: CostWeights { temperature, decode: 1.0, ..CostWeights::default() },
        affinity: Affinity::default(),
        fair_recent: Tokens::ZERO,
        is_pinned: false,
        now: Duration::ZERO,
    }
}

fn of_session(session: u64) -> RequestShape {
    let affinity = Affinity { session: Some(AffinityKey::new(session)), head: None };
    RequestShape { affinity, ..request(0.0) }
}

fn idle(slot: u32) -> Candidate {
    Candidate {
        slot: RankSlot::new(slot),
        key: RankKey::new(slot.into()),
        block_size: BlockSize::DEFAULT,
        cached: CachedTokens::NONE,
        expected: Tokens::ZERO,
        load: WorkerLoad::default(),
        context: Tokens::ZERO,
        recent: Tokens::ZERO,
        excluded: None,
    }
}

fn cached(slot: u32, tokens: u64) -> Candidate {
    Candidate { cached: CachedTokens { device: Tokens::new(tokens), ..CachedTokens::NONE }, ..idle(slot) }
}

fn loaded(slot: u32, blocks: u64) -> Candidate {
    let context = Tokens::new(16 * blocks);
    Candidate { context, ..idle(slot) }
}

fn excluded(slot: u32) -> Candidate {
    Candidate { excluded: Some(Exclusion::Unhealthy), ..cached(slot, 1000) }
}

/// How often each candidate was picked in `rounds` decisions, none of them placed.
fn picks(name: &str, request: &RequestShape, candidates: &[Candidate], rounds: usize) -> Vec<usize> {
    let policy = fresh(name).unwrap();
    let (mut costs, mut rng) = (Vec::new(), rng(7));
    let mut counts = vec![0; candidates.len()];
    for _ in 0..rounds {
        counts[policy.pick(request, candidates, &mut costs, &mut rng).unwrap().candidate] += 1;
    }
    counts
}

/// Counts are as expected within five standard deviations of a fair draw.
fn assert_shares(counts: &[usize], shares: &[f64]) {
    let rounds = counts.iter().sum::<usize>() as f64;
    for (count, share) in counts.iter().zip(shares) {
        let bound = 5.0 * (rounds * share * (1.0 - share)).sqrt();
        assert!((*count as f64 - rounds * share).abs() <= bound, "{counts:?} against shares {shares:?}");
    }
}

fn reason(name: &str, request: &RequestShape, candidates: &[Candidate]) -> PickReason {
    fresh(name).unwrap().pick(request, candidates, &mut Vec::new(), &mut rng(1)).unwrap().reason
}

#[test]
fn every_name_makes_the_policy_of_that_name() {
    for name in NAMES {
        assert_eq!(fresh(name).unwrap().name(), *name);
    }
    let users: Vec<_> = NAMES.iter().filter(|name| fresh(name).unwrap().uses_index()).collect();
    assert_eq!(users, [&"kv"]);
}

#[test]
fn an_unknown_name_lists_the_known_ones_and_the_nearest() {
    let message = |name| fresh(name).unwrap_err().to_string();
    let known =
        "known are kv, round-robin, random, power-of-two, least-loaded, consistent-hash, sticky, direct";
    assert_eq!(message("xyz"), format!("unknown policy `xyz`, {known}"));
    assert_eq!(
        message("round_robin"),
        format!("unknown policy `round_robin`, {known}; did you mean `round-robin`?")
    );
    let nearest = |name| fresh(name).unwrap_err().nearest;
    assert_eq!(nearest("KV"), Some("kv"));
    assert_eq!(nearest("least"), Some("least-loaded"));
    assert_eq!(nearest("power_of_2"), Some("power-of-two"));
    assert_eq!(nearest("consistent"), Some("consistent-hash"));
}

#[test]
fn equal_costs_are_drawn_uniformly() {
    let candidates = [cached(0, 320), excluded(1), cached(2, 320), cached(3, 160), cached(4, 320)];
    let third = 1.0 / 3.0;
    assert_shares(&picks("kv", &request(0.0), &candidates, 3000), &[third, 0.0, third, 0.0, third]);
    let candidates = [loaded(0, 2), loaded(1, 1), loaded(2, 1), excluded(3)];
    assert_shares(&picks("least-loaded", &request(0.0), &candidates, 3000), &[0.0, 0.5, 0.5, 0.0]);
    let candidates = [idle(0), excluded(1), loaded(2, 9), idle(3)];
    assert_shares(&picks("random", &request(0.0), &candidates, 3000), &[third, 0.0, third, third]);
}

#[test]
fn the_reason_says_how_the_pick_came_about() {
    let two = [cached(0, 80), cached(1, 160)];
    let equal = [cached(0, 80), cached(1, 80)];
    assert_eq!(reason("kv", &request(0.0), &two), PickReason::LowestCost);
    assert_eq!(reason("kv", &request(0.0), &equal), PickReason::Tie);
    assert_eq!(reason("kv", &request(0.5), &two), PickReason::Sampled);
    assert_eq!(reason("least-loaded", &request(0.5), &two), PickReason::Tie);
    assert_eq!(reason("random", &request(0.0), &two), PickReason::Random);
    assert_eq!(reason("round-robin", &request(0.0), &two), PickReason::Turn);
    for name in NAMES {
        assert_eq!(reason(name, &request(0.5), &[excluded(0), idle(1)]), PickReason::OnlyCandidate);
    }
    let labels: std::collections::BTreeSet<_> = PickReason::ALL.map(PickReason::as_str).into();
    assert_eq!(labels.len(), PickReason::ALL.len());
}

#[test]
fn an_excluded_candidate_has_no_cost() {
    let mut costs = vec![None; 9];
    let candidates = [excluded(0), cached(1, 80), idle(2)];
    let policy = fresh("kv").unwrap();
    let picked = policy.pick(&request(0.0), &candidates, &mut costs, &mut rng(1)).unwrap();
    assert_eq!((picked.candidate, costs.len()), (1, 3));
    assert_eq!(costs[0], None);
    assert_eq!(costs[1].map(|cost| cost.terms.credit.get()), Some(5.0));
}

fn any_candidate(slot: u32) -> impl Strategy<Value = Candidate> {
    let cached = (0u64..2000, 0u64..200, 0u64..200);
    let load = (0u64..500, 0u64..50, 1u32..40);
    (cached, load, prop_oneof![Just(0u64), 0u64..800], prop::bool::weighted(0.2)).prop_map(
        move |((device, host, disk), (prefill, blocks, size), expected, is_excluded)| Candidate {
            slot: RankSlot::new(slot),
            key: RankKey::new(slot.into()),
            block_size: BlockSize::new(size).unwrap(),
            cached: CachedTokens {
                device: Tokens::new(device),
                host: Tokens::new(host),
                disk: Tokens::new(disk),
            },
            expected: Tokens::new(expected),
            load: WorkerLoad {
                prefill_tokens: Tokens::new(prefill),
                decode_blocks: Blocks::new(blocks),
                active_requests: blocks / 10,
            },
            context: Tokens::new(16 * blocks),
            recent: Tokens::ZERO,
            excluded: is_excluded.then_some(Exclusion::Unhealthy),
        },
    )
}

fn fleet() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec(any::<u8>(), 0..8)
        .prop_flat_map(|slots| (0..slots.len() as u32).map(any_candidate).collect::<Vec<_>>())
}

/// A request with any session, head and pin.
fn any_request() -> impl Strategy<Value = RequestShape> {
    let key = || prop::option::of((0u64..4).prop_map(AffinityKey::new));
    let temperature = prop_oneof![Just(0.0), 0.0..2.0];
    (key(), key(), temperature, any::<bool>(), 0u64..5000).prop_map(
        |(session, head, temperature, is_pinned, seconds)| RequestShape {
            affinity: Affinity { session, head },
            is_pinned,
            now: Duration::from_secs(seconds),
            ..request(temperature)
        },
    )
}

/// What holds for one decision of any policy. Returns the pick.
fn check_decision(
    policy: &dyn Policy,
    request: &RequestShape,
    candidates: &[Candidate],
    seed: u64,
) -> Result<Option<Pick>, TestCaseError> {
    let mut left = candidates.to_vec();
    policy.restrict(request, &mut left);
    let bound = if request.is_pinned { Bound::Free } else { policy.bound(&request.affinity, request.now) };
    prop_assert!(policy.binds() || bound == Bound::Free);
    let may_go = |candidate: &Candidate| match bound {
        Bound::Home(home, _) if candidates.iter().any(|candidate| candidate.key == home) => {
            candidate.key == home
        }
        Bound::Free | Bound::Home(..) => true,
        Bound::Nowhere(_) => false,
    };
    for (left, given) in left.iter().zip(candidates) {
        prop_assert_eq!(left.is_eligible(), given.is_eligible() && may_go(given));
    }
    let pick = || {
        let mut costs = vec![None; 3];
        (policy.pick(request, &left, &mut costs, &mut rng(seed)), costs)
    };
    let (picked, costs) = pick();
    prop_assert_eq!((&picked, &costs), (&pick().0, &pick().1));
    prop_assert!(costs.is_empty() || costs.len() == left.len());
    prop_assert!(left.iter().zip(&costs).all(|(left, cost)| left.is_eligible() || cost.is_none()));
    let Ok(pick) = picked else {
        prop_assert!(!left.iter().any(Candidate::is_eligible));
        let was_some_left = candidates.iter().any(Candidate::is_eligible);
        prop_assert!(!was_some_left || policy.why_none(request, &left).is_some());
        return Ok(None);
    };
    prop_assert!(left[pick.candidate].is_eligible());
    let of_every_policy = [PickReason::OnlyCandidate, PickReason::Pinned];
    prop_assert!(policy.reasons().contains(&pick.reason) || of_every_policy.contains(&pick.reason));
    prop_assert!(pick.reason != PickReason::Pinned || request.is_pinned);
    Ok(Some(pick))
}

proptest! {
    #[test]
    fn every_policy_picks_an_eligible_candidate_for_one_of_its_reasons_and_the_same_one_again(
        decisions in prop::collection::vec((any_request(), fleet()), 1..8),
        seed in any::<u64>(),
        hard_sessions in any::<bool>(),
    ) {
        let options = PolicyOptions { hard_sessions, ..PolicyOptions::default() };
        for name in NAMES {
            let mut policy = by_name(name, &options).unwrap();
            for (request, candidates) in &decisions {
                if let Some(pick) = check_decision(policy.as_ref(), request, candidates, seed)? {
                    policy.placed(request, &candidates[pick.candidate]);
                }
            }
        }
    }

    #[test]
    fn least_loaded_picks_the_least_load_and_of_equals_whoever_was_given_least(
        mut candidates in fleet(),
        recent in prop::collection::vec(0u64..1_000_000, 8),
        fair in 0u64..1_000_000,
        seed in any::<u64>(),
    ) {
        for (candidate, recent) in candidates.iter_mut().zip(recent) {
            candidate.recent = Tokens::new(recent);
        }
        let load = |candidate: &Candidate| {
            (candidate.load.prefill_tokens.get() + candidate.context.get(), candidate.recent)
        };
        let request = RequestShape { fair_recent: Tokens::new(fair), ..request(0.0) };
        let least = candidates.iter().filter(|candidate| candidate.is_eligible()).map(load).min();
        let policy = fresh("least-loaded").unwrap();
        let picked = policy.pick(&request, &candidates, &mut Vec::new(), &mut rng(seed));
        prop_assert_eq!(picked.ok().map(|picked| load(&candidates[picked.candidate])), least);
    }
}
