//! Three hundred ranks, from the first request on.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const NAME: &str = "consistent-hash";

/// Twenty for each of 300 ranks.
const KEYS: u64 = 6_000;

fn with_head(head: u64) -> RequestShape {
    let affinity = Affinity { session: None, head: Some(AffinityKey::new(head)) };
    RequestShape { affinity, ..request(0.0) }
}

fn ranks(slots: impl IntoIterator<Item = u32>) -> Vec<Candidate> {
    slots.into_iter().map(idle).collect()
}

fn busy(slot: u32, active_requests: u64) -> Candidate {
    Candidate { load: WorkerLoad { active_requests, ..WorkerLoad::default() }, ..idle(slot) }
}

fn pick(request: &RequestShape, candidates: &[Candidate]) -> Pick {
    fresh(NAME).unwrap().pick(request, candidates, &mut Vec::new(), &mut rng(5)).unwrap()
}

fn rank_of(key: u64, candidates: &[Candidate]) -> RankKey {
    candidates[pick(&of_session(key), candidates).candidate].key
}

/// Places requests with one key, none of which ends. Answers how many each rank got.
fn burst(requests: u64, candidates: &mut [Candidate]) -> Vec<u64> {
    for _ in 0..requests {
        let picked = pick(&with_head(7), candidates).candidate;
        candidates[picked].load.active_requests += 1;
    }
    candidates.iter().map(|candidate| candidate.load.active_requests).filter(|count| *count > 0).collect()
}

#[test]
fn at_ramp_up_a_hot_key_spreads_over_few_ranks() {
    let mut fleet = ranks(0..300);
    assert_eq!(burst(40, &mut fleet), [4; 10]);
    let mut fleet = ranks(0..300);
    let counts = burst(3000, &mut fleet);
    assert_eq!(counts.iter().max(), Some(&13));
    assert!((230..=241).contains(&counts.len()), "{} ranks", counts.len());
}

#[test]
fn keys_spread_evenly() {
    let fleet = ranks(0..300);
    let mut counts = BTreeMap::new();
    for key in 0..KEYS {
        *counts.entry(rank_of(key, &fleet)).or_insert(0.0) += 1.0;
    }
    let expected = KEYS as f64 / 300.0;
    let squares: f64 = counts.values().map(|count: &f64| (count - expected).powi(2) / expected).sum();
    // Chi-square with 299 degrees of freedom: mean 299, standard deviation 24.5.
    assert!((squares - 299.0).abs() < 5.0 * 24.5, "chi-square {squares}");
}

#[test]
fn a_rank_that_leaves_moves_only_its_own_keys_and_not_all_to_one() {
    let (before, after) = (ranks(0..300), ranks((0..300).filter(|slot| *slot != 17)));
    let mut heirs = BTreeSet::new();
    for key in 0..KEYS {
        let (home, heir) = (rank_of(key, &before), rank_of(key, &after));
        if home == RankKey::new(17) {
            heirs.insert(heir);
        } else {
            assert_eq!(heir, home);
        }
    }
    assert!(heirs.len() > 8, "{} heirs", heirs.len());
}

#[test]
fn a_rank_that_joins_takes_its_share_and_nothing_else_moves() {
    let (before, after) = (ranks(0..299), ranks(0..300));
    let moved = (0..KEYS).filter(|key| {
        let (old, new) = (rank_of(*key, &before), rank_of(*key, &after));
        assert!(new == old || new == RankKey::new(299));
        new != old
    });
    let moved = moved.count();
    assert_shares(&[moved, KEYS as usize - moved], &[1.0 / 300.0, 299.0 / 300.0]);
}

#[test]
fn an_excluded_rank_is_as_good_as_gone_and_neither_slot_nor_order_matters() {
    let without = ranks((0..300).filter(|slot| *slot % 3 > 0));
    let mut renumbered: Vec<_> = (0..300)
        .map(|slot| Candidate {
            slot: RankSlot::new(1000 - slot),
            excluded: (slot % 3 == 0).then_some(Exclusion::Adapter),
            ..idle(slot)
        })
        .collect();
    renumbered.reverse();
    for key in 0..500 {
        assert_eq!(rank_of(key, &renumbered), rank_of(key, &without));
    }
}

#[test]
fn the_session_counts_before_the_head() {
    let fleet = ranks(0..300);
    let both = |session, head| {
        let affinity =
            Affinity { session: Some(AffinityKey::new(session)), head: Some(AffinityKey::new(head)) };
        pick(&RequestShape { affinity, ..request(0.0) }, &fleet).candidate
    };
    assert_eq!(both(1, 2), both(1, 3));
    assert_ne!(both(1, 2), both(4, 2));
    assert_eq!(both(1, 2), pick(&with_head(1), &fleet).candidate);
}

#[test]
fn without_a_key_the_least_loaded_is_next() {
    let fleet = [loaded(0, 2), loaded(1, 1), loaded(2, 1), loaded(3, 3)];
    assert_shares(&picks(NAME, &request(0.0), &fleet, 2000), &[0.0, 0.5, 0.5, 0.0]);
    assert_eq!(reason(NAME, &request(0.0), &fleet), PickReason::Tie);
    assert_eq!(reason(NAME, &request(0.0), &fleet[..2]), PickReason::LowestCost);
}

#[test]
fn the_bound_is_four_or_a_quarter_above_the_share() {
    let fleet = ranks(0..4);
    let home = pick(&of_session(1), &fleet).candidate;
    let reason_at = |of_home, of_others| {
        let load = |slot| if slot as usize == home { of_home } else { of_others };
        pick(&of_session(1), &(0..4).map(|slot| busy(slot, load(slot))).collect::<Vec<_>>()).reason
    };
    assert_eq!(reason_at(3, 0), PickReason::Home);
    assert_eq!(reason_at(4, 0), PickReason::Spilled);
    // 14 + 30 + 1 requests make a share of 11.25 and a bound of 15; one more does not raise it.
    assert_eq!(reason_at(14, 10), PickReason::Home);
    assert_eq!(reason_at(15, 10), PickReason::Spilled);
}

#[test]
fn no_count_of_requests_overflows_the_bound() {
    let fleet: Vec<_> = (0..4).map(|slot| busy(slot, u64::MAX)).collect();
    assert_eq!(pick(&of_session(1), &fleet).reason, PickReason::Home);
}

proptest! {
    /// The walk in the order of scores ends at the home that the key would have if the full ranks were gone.
    #[test]
    fn a_request_goes_to_the_first_rank_with_room(
        loads in prop::collection::vec((0u64..30, prop::bool::weighted(0.2)), 2..20),
        key in any::<u64>(),
    ) {
        let excluded = |is_excluded: bool| is_excluded.then_some(Exclusion::Unhealthy);
        let fleet: Vec<_> = (0u32..)
            .zip(&loads)
            .map(|(slot, (load, is_out))| Candidate { excluded: excluded(*is_out), ..busy(slot, *load) })
            .collect();
        let eligible: Vec<_> = fleet.iter().filter(|candidate| candidate.is_eligible()).copied().collect();
        prop_assume!(eligible.len() > 1);
        let requests: u64 = eligible.iter().map(|candidate| candidate.load.active_requests).sum();
        let bound = (1.25 * (requests + 1) as f64 / eligible.len() as f64).ceil().max(4.0);
        let home = rank_of(key, &ranks(eligible.iter().map(|candidate| candidate.slot.get())));
        let open = eligible.iter().filter(|candidate| (candidate.load.active_requests as f64) < bound);
        let expected = rank_of(key, &ranks(open.map(|candidate| candidate.slot.get())));
        let picked = pick(&of_session(key), &fleet);
        prop_assert_eq!(fleet[picked.candidate].key, expected);
        let reason = if expected == home { PickReason::Home } else { PickReason::Spilled };
        prop_assert_eq!(picked.reason, reason);
    }
}
