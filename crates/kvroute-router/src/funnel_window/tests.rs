use kvroute_core::{Phase, Tokens};
use kvroute_metrics::PhaseFunnel;
use proptest::prelude::*;

use super::*;

/// A model whose one count stands at `tokens`.
fn funnel(tokens: u64) -> Arc<ModelFunnel> {
    let phase = PhaseFunnel {
        ledger: None,
        cached: None,
        reused: Tokens::new(tokens),
        reported_input: Tokens::ZERO,
        expected_input: Tokens::ZERO,
        uncached_prefill: Tokens::ZERO,
        reports: Default::default(),
        uncounted: Default::default(),
        attempts: Default::default(),
        repeated_input: Tokens::ZERO,
        input: None,
    };
    Arc::new(ModelFunnel { phases: [Some(Box::new(phase)), None, None], lost_seconds: None })
}

fn funnels(counts: &[(&str, u64)]) -> Funnels {
    counts.iter().map(|(model, tokens)| (ModelName::new(*model), funnel(*tokens))).collect()
}

fn count(funnels: &Funnels, model: &str) -> Option<u64> {
    let (phase, funnel) = funnels.get(&ModelName::new(model))?.by_phase().next()?;
    assert_eq!(phase, Phase::Aggregated);
    Some(funnel.reused.get())
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn last(asked: u64) -> FunnelSpan {
    FunnelSpan::Last(seconds(asked))
}

/// Readings every five seconds until a time, of a count that is the time itself.
fn running_until(end: u64) -> FunnelWindow {
    let mut window = FunnelWindow::new();
    for at in (5..=end).step_by(5) {
        window.take(seconds(at), funnels(&[("m", at)]));
    }
    window
}

#[test]
fn a_window_excludes_what_was_before_it() {
    let window = running_until(600);
    let at = |now, span| {
        let (covered, difference) = window.difference(seconds(now), &funnels(&[("m", now)]), span);
        (covered.as_secs(), count(&difference, "m").unwrap())
    };
    assert_eq!(at(602, last(30)), (32, 32), "the reading at 570 is the latest that is old enough");
    assert_eq!(at(600, last(30)), (30, 30));
    assert_eq!(at(602, last(300)), (302, 302));
    assert_eq!(at(602, FunnelSpan::All), (602, 602));
}

#[test]
fn a_window_that_is_longer_than_the_router_runs_covers_what_there_is() {
    let window = FunnelWindow::new();
    let (covered, difference) = window.difference(seconds(3), &funnels(&[("m", 40)]), last(300));
    assert_eq!((covered, count(&difference, "m")), (seconds(3), Some(40)));
    let (covered, difference) = running_until(20).difference(seconds(22), &funnels(&[("m", 22)]), last(300));
    assert_eq!((covered, count(&difference, "m")), (seconds(22), Some(22)));
}

#[test]
fn readings_of_more_than_an_hour_ago_are_not_kept() {
    let window = running_until(20_000);
    assert!(window.readings.len() <= MOST_READINGS, "{}", window.readings.len());
    let (covered, difference) = window.difference(seconds(20_003), &funnels(&[("m", 20_003)]), last(3600));
    assert_eq!((covered, count(&difference, "m")), (seconds(3603), Some(3603)));
    let (covered, _) = window.difference(seconds(20_003), &funnels(&[("m", 20_003)]), last(86_400));
    assert_eq!(covered, seconds(3603), "the longest there is, and it says so");
    let (covered, difference) =
        window.difference(seconds(20_003), &funnels(&[("m", 20_003)]), FunnelSpan::All);
    assert_eq!((covered, count(&difference, "m")), (seconds(20_003), Some(20_003)));
}

#[test]
fn a_clock_that_stands_still_does_not_fill_the_memory() {
    let mut window = FunnelWindow::new();
    for tokens in 0..5000 {
        window.take(seconds(9), funnels(&[("m", tokens)]));
    }
    assert_eq!(window.readings.len(), MOST_READINGS);
}

#[test]
fn a_model_that_nobody_uses_is_kept_once() {
    let mut window = FunnelWindow::new();
    for at in 1..100 {
        window.take(seconds(at), funnels(&[("busy", at), ("idle", 7)]));
    }
    let of = |model: &str| {
        let name = ModelName::new(model);
        window
            .readings
            .iter()
            .filter_map(move |reading| reading.funnels.get(&name).cloned())
            .collect::<Vec<_>>()
    };
    let idle = of("idle");
    assert!(idle.len() == 99 && idle.iter().all(|funnel| Arc::ptr_eq(funnel, &idle[0])));
    assert!(of("busy").windows(2).all(|pair| !Arc::ptr_eq(&pair[0], &pair[1])));
}

#[test]
fn a_model_that_left_takes_its_readings_along() {
    let mut window = running_until(100);
    window.take(seconds(105), funnels(&[("other", 5)]));
    assert!(window.readings.iter().all(|reading| !reading.funnels.contains_key(&ModelName::new("m"))));
    let (_, difference) = window.difference(seconds(106), &funnels(&[("other", 6)]), last(50));
    assert_eq!((count(&difference, "m"), count(&difference, "other")), (None, Some(6)));
    let (_, difference) = window.difference(seconds(107), &funnels(&[("m", 3), ("other", 6)]), last(50));
    assert_eq!(count(&difference, "m"), Some(3), "all of it was counted since the model came back");
}

#[test]
fn series_that_began_anew_between_two_readings_made_a_negative_window() {
    let mut window = running_until(100);
    let (_, difference) = window.difference(seconds(102), &funnels(&[("m", 4)]), last(30));
    assert_eq!(count(&difference, "m"), Some(4));
    window.take(seconds(105), funnels(&[("m", 8)]));
    let (_, difference) = window.difference(seconds(110), &funnels(&[("m", 90)]), last(30));
    assert_eq!(
        count(&difference, "m"),
        Some(90),
        "the old counts are no base for it, though they were lower"
    );
    let (_, difference) = window.difference(seconds(110), &funnels(&[("m", 90)]), last(5));
    assert_eq!(count(&difference, "m"), Some(82));
}

proptest! {
    /// Of a count that only grows, any window is the count now less the count at the latest reading that is old enough.
    #[test]
    fn a_window_is_the_difference_to_the_latest_reading_that_is_old_enough(
        steps in proptest::collection::vec((1_u64..200, 0_u64..50), 1..60),
        asked in 1_u64..4000,
        rest in 0_u64..100,
    ) {
        let (mut window, mut all) = (FunnelWindow::new(), vec![(0, 0)]);
        let (mut at, mut tokens) = (0, 0);
        for (pause, added) in steps {
            at += pause;
            tokens += added;
            window.take(seconds(at), funnels(&[("m", tokens)]));
            all.push((at, tokens));
        }
        let now = at + rest;
        let (covered, difference) = window.difference(seconds(now), &funnels(&[("m", tokens + 1)]), last(asked));
        let kept = all.iter().rev().find(|(at, _)| now - at >= asked);
        // Beyond an hour only the oldest reading that is kept is at hand, which is at least an hour old or the first.
        let base = kept.filter(|(at, _)| now - at < 3600).copied();
        match base {
            Some((at, then)) => {
                prop_assert_eq!(covered, seconds(now - at));
                prop_assert_eq!(count(&difference, "m"), Some(tokens + 1 - then));
            }
            None => {
                let (at, then) = *all.iter().find(|(at, _)| seconds(now - at) == covered).unwrap();
                prop_assert!(now - at >= asked.min(3600) || at == 0, "{} of {}", now - at, asked);
                prop_assert_eq!(count(&difference, "m"), Some(tokens + 1 - then));
            }
        }
    }
}
