use kvroute_core::{AttemptId, BlockSize, Blocks, SequenceHash, Tokens, WorkerLoad};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{BookedPrompt, Booking, CachedTokens, CostWeights, Exclusion, LoadBook};

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn request(temperature: f64) -> RequestShape {
    RequestShape {
        input: Tokens::new(1000),
        unit: BlockSize::DEFAULT,
        weights: CostWeights { temperature, ..CostWeights::default() },
    }
}

fn idle(slot: u32) -> Candidate {
    Candidate {
        slot: RankSlot::new(slot),
        block_size: BlockSize::DEFAULT,
        cached: CachedTokens::NONE,
        expected: Tokens::ZERO,
        load: WorkerLoad::default(),
        excluded: None,
    }
}

fn cached(slot: u32, tokens: u64) -> Candidate {
    Candidate { cached: CachedTokens { device: Tokens::new(tokens), ..CachedTokens::NONE }, ..idle(slot) }
}

fn loaded(slot: u32, blocks: u64) -> Candidate {
    let load = WorkerLoad { decode_blocks: Blocks::new(blocks), ..WorkerLoad::default() };
    Candidate { load, ..idle(slot) }
}

fn excluded(slot: u32) -> Candidate {
    Candidate { excluded: Some(Exclusion::Unhealthy), ..cached(slot, 1000) }
}

/// How often each candidate was picked in `rounds` decisions, none of them placed.
fn picks(name: &str, request: &RequestShape, candidates: &[Candidate], rounds: usize) -> Vec<usize> {
    let policy = by_name(name).unwrap();
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
    by_name(name).unwrap().pick(request, candidates, &mut Vec::new(), &mut rng(1)).unwrap().reason
}

#[test]
fn every_name_makes_the_policy_of_that_name() {
    for name in NAMES {
        assert_eq!(by_name(name).unwrap().name(), *name);
    }
    let users: Vec<_> = NAMES.iter().filter(|name| by_name(name).unwrap().uses_index()).collect();
    assert_eq!(users, [&"kv"]);
}

#[test]
fn an_unknown_name_lists_the_known_ones_and_the_nearest() {
    let message = |name| by_name(name).unwrap_err().to_string();
    assert_eq!(
        message("round_robin"),
        "unknown policy `round_robin`, known are kv, round-robin, random, least-loaded; did you mean `round-robin`?"
    );
    assert_eq!(message("xyz"), "unknown policy `xyz`, known are kv, round-robin, random, least-loaded");
    assert_eq!(by_name("KV").unwrap_err().nearest, Some("kv"));
    assert_eq!(by_name("least").unwrap_err().nearest, Some("least-loaded"));
}

#[test]
fn kv_weighs_the_cache_against_the_load() {
    let close_call = |blocks| {
        picks(
            "kv",
            &request(0.0),
            &[cached(0, 160), loaded(1, 0), { Candidate { load: loaded(2, blocks).load, ..cached(2, 800) } }],
            10,
        )
    };
    assert_eq!(close_call(39), [0, 0, 10]);
    assert_eq!(close_call(41), [10, 0, 0]);
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
fn a_cold_temperature_picks_the_lowest_cost_and_a_hot_one_anything() {
    let candidates = [cached(0, 160), cached(1, 320), cached(2, 0), excluded(3)];
    assert_eq!(picks("kv", &request(1e-9), &candidates, 500), [0, 500, 0, 0]);
    assert_eq!(picks("kv", &request(f64::MIN_POSITIVE), &candidates, 500), [0, 500, 0, 0]);
    let third = 1.0 / 3.0;
    assert_shares(&picks("kv", &request(1e6), &candidates, 3000), &[third, third, third, 0.0]);
}

#[test]
fn a_mild_temperature_follows_the_softmax_over_normalised_costs() {
    // Costs of 1000, 920 and 840 tokens are 1, 0.5 and 0 once normalised.
    let candidates = [cached(0, 0), cached(1, 80), cached(2, 160)];
    let shares = [1.0, 0.5, 0.0].map(|cost: f64| (-cost / 0.5).exp());
    let total: f64 = shares.iter().sum();
    assert_shares(&picks("kv", &request(0.5), &candidates, 20_000), &shares.map(|share| share / total));
    let equal = [cached(0, 80), cached(1, 80)];
    assert_shares(&picks("kv", &request(0.5), &equal, 3000), &[0.5, 0.5]);
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
    let policy = by_name("kv").unwrap();
    let picked = policy.pick(&request(0.0), &candidates, &mut costs, &mut rng(1)).unwrap();
    assert_eq!((picked.candidate, costs.len()), (1, 3));
    assert_eq!(costs[0], None);
    assert_eq!(costs[1].map(|cost| cost.terms.credit.get()), Some(5.0));
}

/// Places cold prompts of 1,000 tokens one after another on equal idle ranks, booking each; none is computed
/// meanwhile. Answers which slot each got.
fn burst(prompts: impl IntoIterator<Item = u64>, ranks: u32) -> Vec<u32> {
    let policy = by_name("kv").unwrap();
    let (mut book, mut rng) = (LoadBook::new(), rng(3));
    let mut placed: Vec<(RankSlot, u64)> = Vec::new();
    for (number, prompt) in prompts.into_iter().enumerate() {
        let hashes: Vec<_> =
            (0..1000 / 16).map(|block| SequenceHash::from_raw(prompt * 100 + block)).collect();
        let expected_on = |slot| {
            let shares = placed.contains(&(slot, prompt));
            BlockSize::DEFAULT.tokens(Blocks::from(if shares { hashes.len() } else { 0 }))
        };
        let candidates: Vec<_> = (0..ranks)
            .map(|slot| {
                let slot = RankSlot::new(slot);
                Candidate { load: book.load(slot), expected: expected_on(slot), ..idle(slot.get()) }
            })
            .collect();
        let picked = policy.pick(&request(0.0), &candidates, &mut Vec::new(), &mut rng).unwrap();
        let slot = candidates[picked.candidate].slot;
        let tokens = Tokens::new(1000);
        let booking = Booking {
            prefill: tokens - expected_on(slot),
            block_size: BlockSize::DEFAULT,
            prompts: &[BookedPrompt { tokens, hashes: &hashes }],
            choices: 1,
        };
        book.book(AttemptId::new(number as u64), slot, &booking);
        placed.push((slot, prompt));
    }
    placed.into_iter().map(|(slot, _)| slot.get()).collect()
}

#[test]
fn a_burst_of_equal_cold_prompts_gathers_on_one_rank() {
    let slots = burst([7; 32], 8);
    assert!(slots.iter().all(|slot| *slot == slots[0]), "{slots:?}");
}

#[test]
fn what_each_of_them_adds_by_itself_moves_a_very_long_burst_on() {
    let slots = burst([7; 64], 8);
    let elsewhere = slots.iter().filter(|slot| **slot != slots[0]).count();
    assert!((1..32).contains(&elsewhere), "{slots:?}");
}

#[test]
fn a_burst_of_different_prompts_spreads_evenly() {
    let slots = burst(0..32, 8);
    let counts: Vec<_> = (0..8).map(|slot| slots.iter().filter(|other| **other == slot).count()).collect();
    assert_eq!(counts, [4; 8]);
}

#[test]
fn groups_of_equal_prompts_each_gather_on_a_rank_of_their_own() {
    let slots = burst((0..32).map(|number| number % 4), 4);
    let homes: std::collections::BTreeSet<_> = slots[..4].iter().collect();
    assert_eq!(homes.len(), 4);
    assert!(slots.chunks(4).all(|round| round == &slots[..4]), "{slots:?}");
}

#[test]
fn a_rank_that_joins_or_returns_gets_one_turn_at_once() {
    let mut policy = by_name("round-robin").unwrap();
    let mut turn = |candidates: &[Candidate]| {
        let picked = policy.pick(&request(0.0), candidates, &mut Vec::new(), &mut rng(1)).unwrap();
        let slot = candidates[picked.candidate].slot;
        policy.placed(slot);
        slot.get()
    };
    let all = [idle(0), idle(1), idle(2)];
    let without_one = [idle(0), excluded(1), idle(2)];
    let mut slots = vec![turn(&all), turn(&all)];
    slots.extend([turn(&without_one), turn(&without_one), turn(&without_one)]);
    slots.extend([turn(&all), turn(&all), turn(&all), turn(&all)]);
    assert_eq!(slots, [0, 1, 2, 0, 2, 1, 0, 2, 1]);
}

fn any_candidate(slot: u32) -> impl Strategy<Value = Candidate> {
    let cached = (0u64..2000, 0u64..200, 0u64..200);
    let load = (0u64..500, 0u64..50, 1u32..40);
    (cached, load, prop_oneof![Just(0u64), 0u64..800], prop::bool::weighted(0.2)).prop_map(
        move |((device, host, disk), (prefill, blocks, size), expected, is_excluded)| Candidate {
            slot: RankSlot::new(slot),
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
            excluded: is_excluded.then_some(Exclusion::Unhealthy),
        },
    )
}

fn fleet() -> impl Strategy<Value = Vec<Candidate>> {
    prop::collection::vec(any::<u8>(), 0..8)
        .prop_flat_map(|slots| (0..slots.len() as u32).map(any_candidate).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn every_policy_picks_an_eligible_candidate_and_the_same_one_again(
        candidates in fleet(),
        seed in any::<u64>(),
        temperature in prop_oneof![Just(0.0), 0.0..2.0],
    ) {
        let any_eligible = candidates.iter().any(Candidate::is_eligible);
        for name in NAMES {
            let policy = by_name(name).unwrap();
            let pick = || policy.pick(&request(temperature), &candidates, &mut Vec::new(), &mut rng(seed));
            prop_assert_eq!(pick(), pick());
            match pick() {
                Ok(picked) => prop_assert!(candidates[picked.candidate].is_eligible()),
                Err(NoCandidate) => prop_assert!(!any_eligible),
            }
        }
    }

    #[test]
    fn kv_on_an_idle_fleet_picks_the_largest_credit(
        mut candidates in fleet(),
        seed in any::<u64>(),
    ) {
        for candidate in &mut candidates {
            (candidate.load, candidate.expected) = (WorkerLoad::default(), Tokens::ZERO);
        }
        let credit = |candidate: &Candidate| {
            let cached = candidate.cached;
            let weighted = 4 * cached.device.get() + 3 * cached.host.get() + cached.disk.get();
            weighted.min(4 * 1000)
        };
        let best = candidates.iter().filter(|candidate| candidate.is_eligible()).map(credit).max();
        let picked = by_name("kv").unwrap().pick(&request(0.0), &candidates, &mut Vec::new(), &mut rng(seed));
        prop_assert_eq!(picked.ok().map(|picked| credit(&candidates[picked.candidate])), best);
    }

    #[test]
    fn least_loaded_picks_the_least_load(candidates in fleet(), seed in any::<u64>()) {
        let load = |candidate: &Candidate| {
            let blocks = candidate.load.decode_blocks.get() * u64::from(candidate.block_size.get());
            candidate.load.prefill_tokens.get() + blocks
        };
        let least = candidates.iter().filter(|candidate| candidate.is_eligible()).map(load).min();
        let policy = by_name("least-loaded").unwrap();
        let picked = policy.pick(&request(0.0), &candidates, &mut Vec::new(), &mut rng(seed));
        prop_assert_eq!(picked.ok().map(|picked| load(&candidates[picked.candidate])), least);
    }

    /// Between any two ranks, while both stay eligible, the numbers of turns differ by at most one.
    #[test]
    fn round_robin_is_fair_while_others_come_and_go(
        rounds in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 1..60),
    ) {
        let mut policy = by_name("round-robin").unwrap();
        let mut leads = [[0i64; 5]; 5];
        for eligible in rounds {
            let candidates: Vec<_> = (0..5)
                .map(|slot| if eligible[slot as usize] { idle(slot) } else { excluded(slot) })
                .collect();
            for (a, b) in pairs().filter(|(a, b)| !eligible[*a] || !eligible[*b]) {
                leads[a][b] = 0;
            }
            let Ok(picked) = policy.pick(&request(0.0), &candidates, &mut Vec::new(), &mut rng(1)) else {
                continue;
            };
            policy.placed(candidates[picked.candidate].slot);
            for (a, b) in pairs().filter(|(a, b)| eligible[*a] && eligible[*b]) {
                leads[a][b] += i64::from(picked.candidate == a) - i64::from(picked.candidate == b);
                prop_assert!(leads[a][b].abs() <= 1, "rank {} leads {} by {}", a, b, leads[a][b]);
            }
        }
    }
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..5).flat_map(|a| (0..5).map(move |b| (a, b))).filter(|(a, b)| a != b)
}
