//! Requests that come whatever the fleet does: prompts with parts that many ask for, and long answers.

use std::time::Duration;

use crate::balance::dice::{Dice, Zipf};
use crate::balance::plan::{Chain, EngineSpeed, Plan, TYPICAL, Text, Turn};

/// A head of 4,000 tokens in front of 200 tails, the tails about equally often.
pub(super) fn hot_head(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let head = Text::new(dice.number(), 4000);
    let tails: Vec<Text> = (0..200).map(|_| Text::new(dice.number(), dice.between(300, 1500))).collect();
    let often = Zipf::new(tails.len(), 0.3);
    let ends = Duration::from_secs(50);
    let ask = |dice: &mut Dice| {
        let question = Text::new(dice.number(), dice.between(20, 80));
        Turn::once(vec![head, tails[dice.zipf(&often)], question], dice.between(60, 240) as u64)
    };
    open(TYPICAL, 8, ends, dice.arrivals(105.0, ends), |_| ask(&mut dice))
}

/// Documents of some thousand tokens, of which some are asked about more often, on engines that compute a prompt
/// slowly and answer fast.
pub(super) fn slow_prefill(seed: u64) -> Plan {
    const SLOW: EngineSpeed =
        EngineSpeed { prefill_tps: 3000, steps: 250, context_tps: 100_000_000, ..TYPICAL };
    let mut dice = Dice::new(seed);
    let documents: Vec<Text> =
        (0..400).map(|_| Text::new(dice.number(), dice.between(2000, 10_000))).collect();
    let often = Zipf::new(documents.len(), 0.8);
    let ends = Duration::from_secs(600);
    let ask = |dice: &mut Dice| {
        let question = Text::new(dice.number(), dice.between(100, 900));
        Turn::once(vec![documents[dice.zipf(&often)], question], dice.between(5, 40) as u64)
    };
    open(SLOW, 8, ends, dice.arrivals(3.0, ends), |_| ask(&mut dice))
}

/// Short questions and long answers, some of them very long: the load is in what is generated.
pub(super) fn long_answers(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let system = Text::new(dice.number(), 300);
    let ends = Duration::from_secs(110);
    let ask = |dice: &mut Dice| {
        let question = Text::new(dice.number(), dice.between(50, 450));
        let output = 150.0 * (1.0 - dice.unit()).powf(-0.8);
        Turn::once(vec![system, question], output.min(6000.0) as u64)
    };
    open(TYPICAL, 8, ends, dice.arrivals(45.0, ends), |_| ask(&mut dice))
}

fn open(
    engine: EngineSpeed,
    workers: usize,
    ends: Duration,
    arrivals: Vec<Duration>,
    mut ask: impl FnMut(Duration) -> Turn,
) -> Plan {
    // The first requests find empty caches, which says nothing about the hours that follow.
    let measured_from = ends / 10;
    let chains = arrivals.into_iter().map(|at| Chain::single(at, ask(at))).collect();
    Plan { chains, ends, measured_from, ..Plan::of(engine, workers) }
}
