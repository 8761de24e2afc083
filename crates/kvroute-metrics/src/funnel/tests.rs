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
    let mut lost = Losses::<Tokens>::default();
    lost.unavailable[UnavailableReason::Evicted as usize] = Tokens::new(evicted);
    LedgerTotals {
        lost,
        surplus: Tokens::ZERO,
        residency_surplus: None,
        compared_reported: Tokens::ZERO,
        compared_predicted: Tokens::ZERO,
        anywhere: Tokens::new(7),
        history: None,
        input: Tokens::new(9),
    }
}

fn every_reason(seconds: f64) -> Losses<f64> {
    Losses {
        new: Some([seconds; NewReason::ALL.len()]),
        residency: None,
        unavailable: [seconds; UnavailableReason::ALL.len()],
        eligibility: [seconds; Exclusion::ALL.len()],
        placement: [seconds; PlacementReason::ALL.len()],
        delivery: [seconds; DeliveryReason::ALL.len()],
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
    let lost = |stage| -> Option<Vec<_>> {
        Some(ledger.lost.of_stage(stage)?.filter(|(_, tokens)| !tokens.is_zero()).collect())
    };
    assert_eq!((lost(LossStage::New), lost(LossStage::Residency)), (None, None), "without a history");
    assert_eq!(
        (lost(LossStage::Unavailable).unwrap(), ledger.input),
        (vec![("evicted", Tokens::new(12))], Tokens::ZERO)
    );
}

#[test]
fn what_did_not_exist_was_zero() {
    let mut now = phase(150, 60);
    now.ledger = Some(ledger(42));
    let mut wide = model(now.clone());
    wide.phases[1] = Some(Box::new(phase(8, 4)));
    wide.lost_seconds = Some(every_reason(0.5));
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
    let seconds = |lost| ModelFunnel { lost_seconds: Some(every_reason(lost)), ..before.clone() };
    assert_eq!(seconds(0.5).since(&seconds(0.6)), None);
    assert!(seconds(0.5).since(&seconds(0.5)).is_some());
}

#[test]
fn a_history_that_came_later_was_zero_before_and_one_that_went_began_anew() {
    let with = |history: Option<u64>| {
        let mut ledger = ledger(30);
        let history = history.map(Tokens::new);
        (ledger.history, ledger.residency_surplus) = (history, history);
        ledger.lost.new = history.map(|tokens| [tokens; NewReason::ALL.len()]);
        ledger.lost.residency = history.map(|tokens| [tokens; ResidencyReason::ALL.len()]);
        PhaseFunnel { ledger: Some(ledger), ..phase(100, 40) }
    };
    let since = |now: Option<u64>, earlier: Option<u64>| {
        let added = model(with(now)).since(&model(with(earlier)))?;
        let ledger = added.by_phase().next().unwrap().1.ledger.clone().unwrap();
        let first = ledger.lost.of_stage(LossStage::Residency).map(|mut reasons| reasons.next().unwrap());
        Some((ledger.history, ledger.residency_surplus, first))
    };
    let told = |tokens: Option<u64>| {
        let tokens = tokens.map(Tokens::new);
        Some((tokens, tokens, tokens.map(|tokens| ("worker_gone", tokens))))
    };
    assert_eq!(since(Some(5), None), told(Some(5)));
    assert_eq!(since(Some(9), Some(5)), told(Some(4)));
    assert_eq!(since(None, None), told(None));
    assert_eq!(since(None, Some(5)), None);
    assert_eq!(since(Some(4), Some(5)), None);
}
