use kvroute_select::{PolicyOptions, policy};

use super::super::longest_prefix::LongestPrefix;
use super::super::plan::{Chain, Join, Plan, Stuck, TYPICAL, Text, Turn};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Conversations of three turns, one begun each second.
fn conversations(count: u64, workers: usize) -> Plan {
    let chain = |number: u64| {
        let turn = |turn: u64| Turn {
            pause: SECOND,
            prompt: Prompt::Continues { conversation: number, new: vec![Text::new(10 * number + turn, 200)] },
            output: 20,
            session: Some(number),
        };
        Chain { start: SECOND * number as u32, turns: (0..3).map(turn).collect() }
    };
    Plan { chains: (0..count).map(chain).collect(), ..Plan::of(TYPICAL, workers) }
}

fn weights() -> CostWeights {
    CostWeights::default()
}

fn play(plan: &Plan, name: &str) -> Vec<Record> {
    let policy = policy::by_name(name, &PolicyOptions::default()).unwrap();
    Fleet::play(plan, policy, weights(), 7).unwrap()
}

#[test]
fn every_turn_is_answered_once_and_a_seed_gives_the_same_run() {
    let plan = conversations(20, 3);
    for name in policy::NAMES.iter().filter(|name| **name != "direct") {
        let records = play(&plan, name);
        assert_eq!((records.len(), records.iter().map(|record| record.output).sum::<u64>()), (60, 1200));
        assert!(records.iter().all(|record| record.asked < record.first.unwrap() && record.retries == 0));
        assert_eq!(format!("{records:?}"), format!("{:?}", play(&plan, name)), "{name}");
    }
}

#[test]
fn a_conversation_contains_its_answers_and_whoever_has_it_reuses_them() {
    let records = Fleet::play(&conversations(1, 3), Box::new(LongestPrefix), weights(), 7).unwrap();
    let turns: Vec<_> = records.iter().map(|record| (record.input, record.reused)).collect();
    // The last token of an answer was never computed, and only whole blocks of 16 are kept: 208 of 219, 432 of 439.
    assert_eq!(turns, [(200, 0), (420, 208), (640, 432)]);
}

#[test]
fn nobody_asks_a_worker_before_it_joins() {
    let joins = vec![Join { worker: 1, at: 10 * SECOND }];
    let records = play(&Plan { joins, ..conversations(20, 2) }, "round-robin");
    let (early, late): (Vec<&Record>, Vec<&Record>) =
        records.iter().partition(|record| record.asked < 10 * SECOND);
    assert!(early.iter().all(|record| record.worker == 0));
    assert!(late.iter().any(|record| record.worker == 1));
}

#[test]
fn what_a_stuck_worker_does_not_answer_is_answered_by_another_after_the_patience() {
    let from = Duration::from_millis(5020);
    for worker in 0..2 {
        let stuck = Some(Stuck { worker, from, patience: 3 * SECOND });
        let plan = Plan { stuck, ..conversations(20, 2) };
        // The longest prefix goes back to the stuck worker whenever it may.
        let policy = Box::new(LongestPrefix);
        for records in [play(&plan, "round-robin"), Fleet::play(&plan, policy, weights(), 7).unwrap()] {
            assert_eq!(records.len(), 60, "those under way at the moment as well");
            assert!(records.iter().all(|record| record.worker != worker || record.last <= from));
            for again in records.iter().filter(|record| record.retries > 0) {
                assert!(again.retries == 1 && again.last > again.asked + 3 * SECOND, "{again:?}");
            }
        }
        assert!(play(&plan, "round-robin").iter().any(|record| record.retries > 0));
    }
}

#[test]
fn nothing_is_asked_after_the_end() {
    let records = play(&Plan { ends: 4 * SECOND, ..conversations(20, 2) }, "random");
    assert!(!records.is_empty() && records.iter().all(|record| record.asked < 4 * SECOND));
}
