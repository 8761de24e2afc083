//! Fleets that do not stay what they were.

use std::time::Duration;

use crate::balance::dice::Dice;
use crate::balance::plan::{Chain, Join, Plan, Prompt, Stuck, TYPICAL, Text, Turn};

/// Four workers with conversations under way; a fifth comes with an empty cache. Measured from then on.
pub(super) fn new_worker(seed: u64) -> Plan {
    let joined = Duration::from_secs(90);
    let ends = Duration::from_secs(270);
    Plan {
        joins: vec![Join { worker: 4, at: joined }],
        measured_from: joined,
        ..conversations(seed, 5, 2.0, ends)
    }
}

/// The same where four join, and each worker's fair share halves at once.
pub(super) fn scale_out(seed: u64) -> Plan {
    let joined = Duration::from_secs(90);
    let ends = Duration::from_secs(270);
    Plan {
        joins: (4..8).map(|worker| Join { worker, at: joined }).collect(),
        measured_from: joined,
        ..conversations(seed, 8, 2.0, ends)
    }
}

/// Eight workers with conversations under way; after a minute one of them says nothing any more. Measured from
/// then on.
pub(super) fn stuck_worker(seed: u64) -> Plan {
    let from = Duration::from_secs(60);
    Plan {
        stuck: Some(Stuck { worker: 3, from, patience: Duration::from_secs(10) }),
        measured_from: from,
        ..conversations(seed, 8, 3.2, Duration::from_secs(210))
    }
}

/// So many new conversations a second, each of some turns with a few seconds between them.
fn conversations(seed: u64, workers: usize, a_second: f64, ends: Duration) -> Plan {
    let mut dice = Dice::new(seed);
    let system = Text::new(dice.number(), 1500);
    let starts = dice.arrivals(a_second, ends);
    let chains = starts.into_iter().zip(0..).map(|(start, number)| {
        let turns = (0..dice.between(2, 10)).map(|turn| {
            let mut new = vec![Text::new(dice.number(), dice.between(100, 1500))];
            if turn == 0 {
                new.insert(0, system);
            }
            Turn {
                pause: Duration::from_secs(1) + dice.gap(0.2),
                prompt: Prompt::Continues { conversation: number, new },
                output: dice.between(80, 400) as u64,
                session: Some(number),
            }
        });
        Chain { start, turns: turns.collect() }
    });
    Plan { chains: chains.collect(), ends, ..Plan::of(TYPICAL, workers) }
}
