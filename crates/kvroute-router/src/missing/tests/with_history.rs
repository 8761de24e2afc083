//! Where a history knows what was computed before, what is new stands apart from what was lost.

use proptest::prelude::*;

use super::*;

/// What is new and what was lost, by reason; what is zero is left out. Then the surplus.
fn told(world: &World, prompts: &[Vec<TokenId>], known: &[u64]) -> (Vec<(&'static str, u64)>, u64) {
    let (_, AbsentLoss::ByHistory(lost)) = world.absent(prompts, Some(known), || {}) else {
        panic!("a history was asked");
    };
    let new = lost.new_by_reason().map(|(reason, tokens)| (reason.as_str(), tokens.get()));
    let residency = lost.residency_by_reason().map(|(reason, tokens)| (reason.as_str(), tokens.get()));
    let reasons = new.chain(residency).filter(|(_, tokens)| *tokens > 0).collect();
    (reasons, lost.surplus_tokens().get())
}

#[test]
fn what_was_computed_before_and_evicted_is_lost_and_the_rest_is_new() {
    let world = World::new(&[16]);
    world.stores(0, &prompt(1, 64), 4);
    world.evicts(0, &prompt(1, 64), 3);
    world.evicts(0, &prompt(1, 64), 2);
    let reasons = vec![("partial_block", 4), ("unseen", 32), ("evicted", 32)];
    assert_eq!(told(&world, &[prompt(1, 100)], &[4]), (reasons, 0));
}

#[test]
fn what_was_computed_before_and_left_no_trace_is_unknown_or_hidden_by_a_blind_source() {
    let mut world = World::new(&[16]);
    assert_eq!(told(&world, &[prompt(1, 64)], &[4]), (vec![("unknown", 64)], 0));
    world.joins(16, Tells::Nothing);
    assert_eq!(told(&world, &[prompt(1, 64)], &[4]), (vec![("source_blind", 64)], 0));
}

#[test]
fn what_is_cached_although_no_history_knows_it_is_a_surplus() {
    let world = World::new(&[16]);
    world.stores(0, &prompt(1, 64), 4);
    assert_eq!(told(&world, &[prompt(1, 80)], &[1]), (vec![("unseen", 64)], 48));
}

/// One prompt is cached beyond what is known of it, the other one is lost: over the list that is one difference.
#[test]
fn a_list_is_judged_by_its_sum() {
    let mut world = World::new(&[16, 16]);
    world.stores(0, &prompt(1, 64), 4);
    world.stores(1, &prompt(2, 64), 4);
    world.leaves(1);
    let list = [prompt(1, 64), prompt(2, 64)];
    assert_eq!(told(&world, &list, &[4, 4]), (vec![("worker_gone", 64)], 0));
    assert_eq!(told(&world, &list, &[2, 4]), (vec![("unseen", 32), ("worker_gone", 32)], 0));
    assert_eq!(told(&world, &list, &[0, 3]), (vec![("unseen", 80)], 16));
}

proptest! {
    /// Whatever happened to a prompt's blocks: as far as the history reaches, what is lost has the reasons that it has
    /// without one.
    #[test]
    fn reasons_are_those_without_a_history_up_to_its_end(
        stored in 0_usize..8,
        evicted in prop::collection::vec(0_usize..8, 0..4),
        known in 0_u64..8,
    ) {
        let world = World::new(&[16]);
        let asked = prompt(1, 8 * 16);
        world.stores(0, &asked, stored);
        for block in evicted.iter().filter(|block| **block < stored).collect::<std::collections::BTreeSet<_>>() {
            world.evicts(0, &asked, *block);
        }
        let (reasons, _) = told(&world, std::slice::from_ref(&asked), &[known]);
        let as_far = asked[..known as usize * 16].to_vec();
        let named = |reason: &'static str| if reason == "not_cached" { "unknown" } else { reason };
        let without = world.lost(&[&as_far]).into_iter().map(|(reason, tokens)| (named(reason), tokens));
        let lost: Vec<_> = reasons.into_iter().filter(|(reason, _)| *reason != "unseen").collect();
        prop_assert_eq!(lost, without.collect::<Vec<_>>());
    }
}
