use proptest::prelude::*;

use super::*;

#[test]
fn kv_weighs_the_cache_against_the_load() {
    let close_call = |blocks| {
        picks(
            "kv",
            &request(0.0),
            &[cached(0, 160), loaded(1, 0), {
                Candidate { context: loaded(2, blocks).context, ..cached(2, 800) }
            }],
            10,
        )
    };
    assert_eq!(close_call(47), [0, 0, 10]);
    assert_eq!(close_call(49), [10, 0, 0]);
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

proptest! {
    #[test]
    fn kv_on_an_idle_fleet_picks_the_largest_credit(
        mut candidates in fleet(),
        seed in any::<u64>(),
    ) {
        for candidate in &mut candidates {
            (candidate.load, candidate.expected) = (WorkerLoad::default(), Tokens::ZERO);
            candidate.context = Tokens::ZERO;
        }
        let credit = |candidate: &Candidate| {
            let cached = candidate.cached;
            let weighted = 4 * cached.device.get() + 3 * cached.host.get() + cached.disk.get();
            weighted.min(4 * 1000)
        };
        let best = candidates.iter().filter(|candidate| candidate.is_eligible()).map(credit).max();
        let picked = fresh("kv").unwrap().pick(&request(0.0), &candidates, &mut Vec::new(), &mut rng(seed));
        prop_assert_eq!(picked.ok().map(|picked| credit(&candidates[picked.candidate])), best);
    }
}
