//! Traffic that comes before anything is known of it.

use std::time::Duration;

use crate::balance::dice::{Dice, Zipf};
use crate::balance::plan::{Chain, Plan, TYPICAL, Text, Turn};

/// Every 20 seconds 64 equal prompts of 8,000 tokens, another one each time, on a fleet that is idle before.
pub(super) fn cold_burst(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let mut chains = Vec::new();
    for burst in 0..16 {
        let start = Duration::from_secs(20 * burst);
        let prompt = Text::new(dice.number(), 8000);
        for _ in 0..64 {
            let at = start + Duration::from_micros(dice.below(100_000) as u64);
            chains.push(Chain::single(at, Turn::once(vec![prompt], dice.between(60, 140) as u64)));
        }
    }
    Plan { chains, ..Plan::of(TYPICAL, 8) }
}

/// 40 applications with a system prompt each, some of them asked for more; from nothing to 300 requests a second.
pub(super) fn ramp_up(seed: u64) -> Plan {
    const SECONDS: f64 = 30.0;
    const AT_THE_END: f64 = 400.0;
    let mut dice = Dice::new(seed);
    let heads: Vec<Text> = (0..40).map(|_| Text::new(dice.number(), dice.between(500, 2500))).collect();
    let often = Zipf::new(heads.len(), 1.0);
    let count = (SECONDS * AT_THE_END / 2.0) as usize;
    let chains = (0..count).map(|_| {
        let at = Duration::from_secs_f64(SECONDS * dice.unit().sqrt());
        let own = Text::new(dice.number(), dice.between(200, 1800));
        let prompt = vec![heads[dice.zipf(&often)], own];
        Chain::single(at, Turn::once(prompt, dice.between(50, 250) as u64))
    });
    Plan { chains: chains.collect(), ..Plan::of(TYPICAL, 300) }
}
