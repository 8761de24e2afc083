//! One request at a time: the load is zero at every decision, so that it can tell nobody apart.

use std::time::Duration;

use crate::balance::dice::Dice;
use crate::balance::plan::{Chain, Plan, Prompt, TYPICAL, Text, Turn};

/// Nothing tells the workers apart.
pub(super) fn idle_ties(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let turns = (0..480).map(|_| {
        let prompt = vec![Text::new(dice.number(), dice.between(500, 1500))];
        Turn { pause: dice.gap(2.0), ..Turn::once(prompt, 50) }
    });
    plan(8, turns.collect())
}

/// Conversations of sixteen turns in any order. The first that had the system prompt looks best to all of them.
pub(super) fn paced_sessions(seed: u64) -> Plan {
    const SESSIONS: usize = 96;
    const TURNS: usize = 16;
    let mut dice = Dice::new(seed);
    let mut order: Vec<usize> = (0..SESSIONS * TURNS).map(|turn| turn % SESSIONS).collect();
    dice.shuffle(&mut order);
    let mut has_begun = [false; SESSIONS];
    let turns = order.into_iter().map(|session| {
        let mut new = vec![Text::new(dice.number(), dice.between(150, 450))];
        if !std::mem::replace(&mut has_begun[session], true) {
            new.insert(0, Text::new(seed, 2000));
        }
        let session = session as u64;
        Turn {
            pause: dice.gap(2.0),
            prompt: Prompt::Continues { conversation: session, new },
            output: dice.between(60, 180) as u64,
            session: Some(session),
        }
    });
    plan(8, turns.collect())
}

fn plan(workers: usize, turns: Vec<Turn>) -> Plan {
    Plan { chains: vec![Chain { start: Duration::ZERO, turns }], ..Plan::of(TYPICAL, workers) }
}
