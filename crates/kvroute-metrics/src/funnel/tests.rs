//! Differences of readings.

use super::*;

fn phase(input: u64, reused: u64) -> PhaseFunnel {
    PhaseFunnel {
        ledger: None,
        cached: None,
        reused: Tokens::new(reused),
        reported_input: Tokens::ZERO,
        expected_input: Tokens::ZERO,
        uncached_prefill: Tokens::ZERO,
        reports: Default::default(),
        uncounted: Default::default(),
        attempts: Default::default(),
        repeated_input: Tokens::ZERO,
        input: Some(Tokens::new(input)),
    }
}

fn ledger(evicted: u64) -> LedgerTotals {
    let evicted_at =
        |stage, reason| stage == LossStage::Unavailable && reason == UnavailableReason::Evicted as usize;
    LedgerTotals {
        lost: Losses::each(|stage, reason| Tokens::new(if evicted_at(stage, reason) { evicted } else { 0 })),
        surplus: Tokens::ZERO,
        compared_reported: Tokens::ZERO,
        compared_predicted: Tokens::ZERO,
        anywhere: Tokens::new(7),
        input: Tokens::new(9),
    }
}

fn model(aggregated: PhaseFunnel) -> ModelFunnel {
    ModelFunnel { phases: [Some(Box::new(aggregated)), None, None], lost_seconds: None }
}

#[test]
fn the_difference_is_what_was_added_to_every_count() {
    let mut earlier = phase(100, 40);
    earlier.reports = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    earlier.ledger = Some(ledger(30));
    let mut now = phase(150, 60);
    now.reports = [1, 2, 3, 4, 15, 6, 7, 8, 9];
    now.ledger = Some(ledger(42));
    let added = model(now).since(&model(earlier)).unwrap();
    let (of, added) = added.by_phase().next().unwrap();
    assert_eq!((of, added.input, added.reused), (Phase::Aggregated, Some(Tokens::new(50)), Tokens::new(20)));
    assert_eq!(added.reports, [0, 0, 0, 0, 10, 0, 0, 0, 0]);
    let ledger = added.ledger.as_ref().unwrap();
    let lost: Vec<_> =
        ledger.lost.of_stage(LossStage::Unavailable).filter(|(_, tokens)| !tokens.is_zero()).collect();
    assert_eq!((lost, ledger.input), (vec![("evicted", Tokens::new(12))], Tokens::ZERO));
}

#[test]
fn what_did_not_exist_was_zero() {
    let mut now = phase(150, 60);
    now.ledger = Some(ledger(42));
    let mut wide = model(now.clone());
    wide.phases[1] = Some(Box::new(phase(8, 4)));
    wide.lost_seconds = Some(Losses::each(|_, _| 0.5));
    let added = wide.since(&model(phase(100, 40))).unwrap();
    assert_eq!(added.phases[1], wide.phases[1]);
    assert_eq!(added.lost_seconds, wide.lost_seconds);
    assert_eq!(added.by_phase().next().unwrap().1.ledger, now.ledger);
}

#[test]
fn a_count_that_fell_or_vanished_tells_that_its_series_began_anew() {
    let before = model(phase(100, 40));
    assert_eq!(model(phase(100, 39)).since(&before), None);
    assert_eq!(model(phase(99, 60)).since(&before), None);
    let mut uncounted = phase(0, 60);
    uncounted.input = None;
    assert_eq!(model(uncounted).since(&before), None);
    let seconds = |lost| ModelFunnel { lost_seconds: Some(Losses::each(|_, _| lost)), ..before.clone() };
    assert_eq!(seconds(0.5).since(&seconds(0.6)), None);
    assert!(seconds(0.5).since(&seconds(0.5)).is_some());
}
