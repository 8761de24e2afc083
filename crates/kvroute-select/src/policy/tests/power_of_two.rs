use super::*;

const NAME: &str = "power-of-two";

#[test]
fn of_two_drawn_the_less_loaded_wins_and_the_busiest_never() {
    let candidates = [loaded(0, 1), excluded(1), loaded(2, 2), idle(3), loaded(4, 3)];
    let sixth = 1.0 / 6.0;
    let shares = [2.0 * sixth, 0.0, sixth, 3.0 * sixth, 0.0];
    assert_shares(&picks(NAME, &request(0.0), &candidates, 12_000), &shares);
    assert_eq!(reason(NAME, &request(0.0), &candidates), PickReason::LessLoadedOfTwo);
}

#[test]
fn equal_ones_are_as_likely_and_temperature_and_cache_change_nothing() {
    let candidates = [cached(0, 800), idle(1), excluded(2), cached(3, 160)];
    let third = 1.0 / 3.0;
    assert_shares(&picks(NAME, &request(1.0), &candidates, 6000), &[third, third, 0.0, third]);
}

#[test]
fn only_the_two_that_were_drawn_have_a_cost() {
    let candidates: Vec<_> = (0..6).map(|slot| loaded(slot, slot.into())).collect();
    let policy = fresh(NAME).unwrap();
    let mut costs = Vec::new();
    for seed in 0..50 {
        let picked = policy.pick(&request(0.0), &candidates, &mut costs, &mut rng(seed)).unwrap();
        let weighed: Vec<_> = (0..6).filter(|position| costs[*position].is_some()).collect();
        assert_eq!((weighed.len(), weighed[0]), (2, picked.candidate));
    }
}
