use proptest::prelude::*;

use super::*;

#[test]
fn a_rank_that_joins_or_returns_gets_one_turn_at_once() {
    let mut policy = fresh("round-robin").unwrap();
    let mut turn = |candidates: &[Candidate]| {
        let picked = policy.pick(&request(0.0), candidates, &mut Vec::new(), &mut rng(1)).unwrap();
        let rank = &candidates[picked.candidate];
        policy.placed(&request(0.0), rank);
        rank.slot.get()
    };
    let all = [idle(0), idle(1), idle(2)];
    let without_one = [idle(0), excluded(1), idle(2)];
    let mut slots = vec![turn(&all), turn(&all)];
    slots.extend([turn(&without_one), turn(&without_one), turn(&without_one)]);
    slots.extend([turn(&all), turn(&all), turn(&all), turn(&all)]);
    assert_eq!(slots, [0, 1, 2, 0, 2, 1, 0, 2, 1]);
}

proptest! {
    /// Between any two ranks, while both stay eligible, the numbers of turns differ by at most one.
    #[test]
    fn round_robin_is_fair_while_others_come_and_go(
        rounds in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 1..60),
    ) {
        let mut policy = fresh("round-robin").unwrap();
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
            policy.placed(&request(0.0), &candidates[picked.candidate]);
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
