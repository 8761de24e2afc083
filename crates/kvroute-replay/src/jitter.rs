//! Takes the recorder's clock ticks out of arrival times.
//!
//! Public traces are often stamped in coarse ticks (about 3 s in Mooncake's conversation trace): replayed raw,
//! ten requests start in the same instant and then nothing happens. Requests of one stamp are therefore spread
//! over the time up to the next stamp, by a seeded generator; a request that has its stamp for itself stays.

use std::time::Duration;

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::{Trace, TraceRequest};

/// Spreads requests of one stamp uniformly from it up to the next stamp, at most over one `tick`, and restores
/// the order of arrival. Equal seeds give equal times.
pub fn spread_ticks(trace: &mut Trace, tick: Duration, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut rest = trace.requests.as_mut_slice();
    while let Some(stamp) = rest.first().map(|request| request.at) {
        let burst_len = rest.iter().take_while(|request| request.at == stamp).count();
        let (burst, later) = rest.split_at_mut(burst_len);
        let until_next = later.first().map_or(tick, |request| request.at - stamp);
        spread_burst(burst, until_next.min(tick), &mut rng);
        rest = later;
    }
    trace.requests.sort_by_key(|request| request.at);
}

fn spread_burst(burst: &mut [TraceRequest], span: Duration, rng: &mut ChaCha8Rng) {
    if burst.len() < 2 {
        return;
    }
    for request in burst {
        request.at += span.mul_f64(rng.random_range(0.0..1.0));
    }
}

#[cfg(test)]
mod tests {
    use kvroute_core::{BlockSize, Tokens};
    use proptest::prelude::*;

    use super::*;

    const TICK: Duration = Duration::from_millis(3000);

    fn trace_at(millis: &[u64]) -> Trace {
        let request = |(id, at): (usize, &u64)| TraceRequest {
            at: Duration::from_millis(*at),
            input: Tokens::new(1),
            output: Tokens::new(1),
            blocks: vec![id as u64],
        };
        Trace { block_size: BlockSize::DEFAULT, requests: millis.iter().enumerate().map(request).collect() }
    }

    #[test]
    fn a_burst_fills_its_tick_and_a_single_request_stays() {
        let mut trace = trace_at(&[0, 0, 0, 2999, 6000, 6000, 600_000]);
        spread_ticks(&mut trace, TICK, 7);
        let times: Vec<u128> = trace.requests.iter().map(|request| request.at.as_millis()).collect();
        assert!(times[..3].iter().all(|at| *at < 2999), "{times:?}");
        assert!(times[0] != times[1] && times[1] != times[2], "{times:?}");
        assert_eq!(times[3], 2999);
        assert!(times[4..6].iter().all(|at| (6000..9000).contains(at)), "{times:?}");
        assert_eq!(times[6], 600_000);
    }

    proptest! {
        #[test]
        fn times_stay_sorted_within_their_tick_and_follow_the_seed(
            mut millis in prop::collection::vec(0u64..20_000, 0..40),
            seed in any::<u64>(),
        ) {
            millis.iter_mut().for_each(|at| *at -= *at % 3000);
            millis.sort_unstable();
            let mut spread = trace_at(&millis);
            spread_ticks(&mut spread, TICK, seed);
            prop_assert!(spread.requests.is_sorted_by_key(|request| request.at));
            for request in &spread.requests {
                let stamp = Duration::from_millis(millis[request.blocks[0] as usize]);
                prop_assert!(request.at >= stamp && request.at < stamp + TICK);
            }
            let mut again = trace_at(&millis);
            spread_ticks(&mut again, TICK, seed);
            prop_assert_eq!(again, spread);
        }
    }
}
