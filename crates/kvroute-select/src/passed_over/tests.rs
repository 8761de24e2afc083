use std::time::Duration;

use kvroute_core::{BlockSize, Blocks, RankKey, RankSlot, WorkerLoad};
use proptest::prelude::*;

use super::*;
use crate::Affinity;

const INPUT: u64 = 1000;

fn request(weights: CostWeights) -> RequestShape {
    RequestShape {
        input: Tokens::new(INPUT),
        unit: BlockSize::new(16).unwrap(),
        weights,
        affinity: Affinity::default(),
        fair_recent: Tokens::ZERO,
        is_pinned: false,
        now: Duration::ZERO,
    }
}

fn device(tokens: u64) -> CachedTokens {
    CachedTokens { device: Tokens::new(tokens), ..CachedTokens::NONE }
}

/// An idle rank whose cached prefix earns full credit.
fn idle(slot: u32, cached: CachedTokens) -> Candidate {
    Candidate {
        slot: RankSlot::new(slot),
        key: RankKey::new(u64::from(slot)),
        block_size: BlockSize::new(16).unwrap(),
        cached,
        expected: Tokens::ZERO,
        load: WorkerLoad::default(),
        context: Tokens::ZERO,
        recent: Tokens::ZERO,
        excluded: None,
    }
}

/// Why the first of the two, which holds more, was passed over.
fn reason(weights: CostWeights, holder: Candidate, held: CachedTokens, other: Candidate) -> PlacementReason {
    let (candidates, cached) = ([holder, other], [held, other.cached]);
    Weighed { request: &request(weights), candidates: &candidates, cached: &cached, best: held.total() }
        .reason()
}

fn with_load(candidate: Candidate, prefill: u64, requests: u64) -> Candidate {
    let load = WorkerLoad {
        prefill_tokens: Tokens::new(prefill),
        decode_blocks: Blocks::ZERO,
        active_requests: requests,
    };
    Candidate { load, ..candidate }
}

#[test]
fn each_term_names_what_it_alone_takes() {
    let plain = CostWeights::default();
    let (held, none) = (device(320), CachedTokens::NONE);
    let (holder, other) = (idle(0, held), idle(1, none));
    let per_request = CostWeights { request: 100.0, ..plain };
    let of_host = CostWeights { host: 0.0, ..plain };
    let host = CachedTokens { host: Tokens::new(320), ..none };
    let short = device(16);
    let cases = [
        (plain, with_load(holder, 5000, 0), held, other, PlacementReason::Load),
        (plain, Candidate { context: Tokens::new(100_000), ..holder }, held, other, PlacementReason::Load),
        (per_request, with_load(holder, 0, 4), held, other, PlacementReason::RequestCount),
        (plain, Candidate { recent: Tokens::new(90_000), ..holder }, held, other, PlacementReason::Recent),
        (of_host, idle(0, host), host, idle(1, short), PlacementReason::TierWeight),
        (plain, holder, held, Candidate { expected: Tokens::new(900), ..other }, PlacementReason::Expected),
        (plain, idle(0, none), held, idle(1, short), PlacementReason::Trust),
    ];
    for (weights, holder, held, other, expected) in cases {
        assert_eq!(reason(weights, holder, held, other), expected, "{holder:?} against {other:?}");
    }
}

#[test]
fn the_last_term_of_several_names_the_loss() {
    let holder = Candidate { recent: Tokens::new(90_000), ..with_load(idle(0, device(320)), 5000, 0) };
    let other = idle(1, CachedTokens::NONE);
    assert_eq!(reason(CostWeights::default(), holder, device(320), other), PlacementReason::Recent);
}

#[test]
fn a_holder_that_was_cheapest_lost_by_the_draw() {
    let (holder, other) = (idle(0, device(320)), idle(1, CachedTokens::NONE));
    let sampling = CostWeights { temperature: 1.0, ..CostWeights::default() };
    assert_eq!(reason(sampling, holder, device(320), other), PlacementReason::Sampling);
    let equal = Candidate { expected: Tokens::new(320), ..other };
    let waiting = with_load(equal, 320, 0);
    assert_eq!(reason(CostWeights::default(), holder, device(320), waiting), PlacementReason::Tie);
}

#[test]
fn one_of_several_holders_is_enough() {
    let (busy, free) = (with_load(idle(0, device(320)), 9000, 0), with_load(idle(1, device(320)), 5000, 0));
    let other = idle(2, CachedTokens::NONE);
    let cached = [device(320), device(320), CachedTokens::NONE];
    let weighed = Weighed {
        request: &request(CostWeights { request: 1.0, ..CostWeights::default() }),
        candidates: &[busy, free, other],
        cached: &cached,
        best: Tokens::new(320),
    };
    assert_eq!(weighed.reason(), PlacementReason::Load);
}

#[test]
fn an_excluded_rank_is_no_holder_and_no_rival() {
    let excluded = Candidate { excluded: Some(crate::Exclusion::Unhealthy), ..idle(0, device(640)) };
    let holder = with_load(idle(1, device(320)), 5000, 0);
    let cached = [device(640), device(320), CachedTokens::NONE];
    let weighed = Weighed {
        request: &request(CostWeights::default()),
        candidates: &[excluded, holder, idle(2, CachedTokens::NONE)],
        cached: &cached,
        best: Tokens::new(320),
    };
    assert_eq!(weighed.reason(), PlacementReason::Load);
}

fn any_candidate() -> impl Strategy<Value = (Candidate, CachedTokens)> {
    let cached = (0u64..20, 0u64..20, 0u64..20);
    (cached, any::<bool>(), 0u64..2000, 0u64..9, 0u64..9000, 0u64..600).prop_map(
        |((device, host, disk), has_credit, prefill, requests, recent, expected)| {
            let cached = CachedTokens {
                device: Tokens::new(16 * device),
                host: Tokens::new(16 * host),
                disk: Tokens::new(16 * disk),
            };
            let credited = if has_credit { cached } else { CachedTokens::NONE };
            let candidate = Candidate {
                recent: Tokens::new(recent),
                expected: Tokens::new(expected),
                ..with_load(idle(0, credited), prefill, requests)
            };
            (candidate, cached)
        },
    )
}

proptest! {
    /// Without all terms the raw prefix alone decides, so some term always names the loss.
    #[test]
    fn a_reason_is_always_found_before_the_terms_run_out(
        fleet in proptest::collection::vec(any_candidate(), 2..8),
        weights in (0.0f64..3.0, 0.0f64..2.0, 0.0f64..2.0),
    ) {
        let (candidates, cached): (Vec<_>, Vec<_>) = fleet.into_iter().unzip();
        let best = cached.iter().map(|tokens| tokens.total()).max().unwrap();
        let (request_weight, device, host) = weights;
        let weights = CostWeights { request: request_weight, device, host, ..CostWeights::default() };
        let request = request(weights);
        let weighed = Weighed { request: &request, candidates: &candidates, cached: &cached, best };
        prop_assert!(weighed.holder_is_cheapest(TERMS.len()));
    }
}
