//! Every outcome by example, then any sequence of reports and endings against a model that judges them all
//! at once.

use std::cell::RefCell;
use std::rc::Rc;

use kvroute_core::{Figure, ReportSource};
use proptest::prelude::*;

use super::*;
use crate::losses::tests::closing;
use crate::{CachedStages, Count, LedgerTerms, ReportExpectation, UncountedReason};

/// Writes down every call in order.
#[derive(Clone, Debug, Default)]
struct Recorder(Rc<RefCell<Vec<Call>>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Opened(Opening),
    Judged(Judgement),
    Undelivered(DeliveryReason, Tokens),
    Closed(Closing),
}

impl FunnelSink for Recorder {
    fn opened(&self, opening: &Opening) {
        self.0.borrow_mut().push(Call::Opened(*opening));
    }

    fn judged(&self, judgement: &Judgement) {
        self.0.borrow_mut().push(Call::Judged(*judgement));
    }

    fn undelivered(&self, reason: DeliveryReason, tokens: Tokens) {
        self.0.borrow_mut().push(Call::Undelivered(reason, tokens));
    }

    fn closed(&self, closing: &Closing) {
        self.0.borrow_mut().push(Call::Closed(*closing));
    }
}

impl Recorder {
    fn judgements(&self) -> Vec<Judgement> {
        let judged = |call: &Call| match call {
            Call::Judged(judgement) => Some(*judgement),
            _ => None,
        };
        self.0.borrow().iter().filter_map(judged).collect()
    }

    fn closings(&self) -> Vec<Closing> {
        let closed = |call: &Call| match call {
            Call::Closed(closing) => Some(*closing),
            _ => None,
        };
        self.0.borrow().iter().filter_map(closed).collect()
    }
}

const INPUT: u64 = 100;

fn exact() -> Opening {
    let tokens = Tokens::new;
    let cached = CachedStages { anywhere: tokens(80), best: tokens(64), selected: tokens(48) };
    let count = Count::Exact { input: tokens(INPUT), cached: Some(cached) };
    let ledger = Some(LedgerTerms { losses: closing(tokens(INPUT), None, &cached), reusable: tokens(96) });
    Opening { count, history: None, reports: ReportExpectation::Expected, ledger, is_repeat: false }
}

fn uncounted(reason: UncountedReason) -> Opening {
    let (count, reports) = (Count::Uncounted(reason), ReportExpectation::Expected);
    Opening { count, history: None, reports, ledger: None, is_repeat: false }
}

fn usage(prompt: Figure, reused: Figure) -> WorkerReport {
    WorkerReport { source: ReportSource::Usage, prompt, reused }
}

fn counted(prompt: u64, reused: u64) -> WorkerReport {
    usage(Figure::Count(prompt), Figure::Count(reused))
}

/// Runs an attempt to its end and gives its only judgement.
fn judged(opening: Opening, reports: &[WorkerReport], close: Close) -> Judgement {
    let recorder = Recorder::default();
    let mut ledger = AttemptLedger::open(opening, recorder.clone());
    for report in reports {
        ledger.report(report);
    }
    let closing = ledger.close(close).closing;
    let judgements = recorder.judgements();
    assert_eq!(judgements.len(), 1, "{judgements:?}");
    assert_eq!(closing.outcome, Some(judgements[0].outcome));
    assert_eq!(closing.reused, judgements[0].reused);
    judgements[0]
}

/// `(outcome, F4, reported input, expected input)`.
fn summary(judgement: Judgement) -> (ReportOutcome, Option<u64>, u64, u64) {
    let reused = judgement.reused.map(Tokens::get);
    (judgement.outcome, reused, judgement.reported_input.get(), judgement.expected_input.get())
}

#[test]
fn a_valid_report_is_counted_with_its_prediction_and_zero_is_valid() {
    let judgement = judged(exact(), &[counted(INPUT, 48)], Close::Completed);
    assert_eq!(summary(judgement), (ReportOutcome::Reported, Some(48), INPUT, INPUT));
    let compared = judgement.delivery.map(|delivery| (delivery.predicted, delivery.reported));
    assert_eq!(compared, Some((Tokens::new(48), Tokens::new(48))));
    assert_eq!(judgement.uncached(), Some(Tokens::new(52)));

    let zero = judged(exact(), &[counted(INPUT, 0)], Close::Completed);
    assert_eq!(summary(zero), (ReportOutcome::Reported, Some(0), INPUT, INPUT));
}

#[test]
fn reuse_above_the_selected_prefix_is_not_capped() {
    let judgement = judged(exact(), &[counted(INPUT, 99)], Close::Completed);
    assert_eq!(summary(judgement), (ReportOutcome::Reported, Some(99), INPUT, INPUT));
}

#[test]
fn reuse_above_the_prompt_is_counted_but_not_compared() {
    let judgement = judged(exact(), &[counted(INPUT, 101)], Close::Completed);
    assert_eq!(summary(judgement), (ReportOutcome::Impossible, Some(101), INPUT, INPUT));
    assert_eq!((judgement.delivery, judgement.uncached()), (None, None));
}

#[test]
fn an_uncounted_attempt_is_counted_by_the_engines_prompt() {
    for reason in UncountedReason::ALL.into_iter().filter(|reason| *reason != UncountedReason::Endpoint) {
        let judgement = judged(uncounted(reason), &[counted(70, 80)], Close::Completed);
        assert_eq!(summary(judgement), (ReportOutcome::Unchecked, Some(80), 70, 70));
        assert_eq!(judgement.uncached(), None);
    }
}

#[test]
fn an_endpoint_without_a_prompt_has_no_outcome() {
    let recorder = Recorder::default();
    let mut ledger = AttemptLedger::open(uncounted(UncountedReason::Endpoint), recorder.clone());
    assert_eq!(ledger.report(&counted(70, 10)), None);
    let closing = ledger.close(Close::Completed).closing;
    assert_eq!((closing.outcome, closing.reused), (None, None));
    assert_eq!(recorder.judgements(), []);
}

#[test]
fn excluded_and_ambiguous_attempts_ignore_their_reports() {
    let pairs = [
        (ReportExpectation::Excluded, ReportOutcome::Excluded),
        (ReportExpectation::Ambiguous, ReportOutcome::Ambiguous),
    ];
    for (reports, outcome) in pairs {
        for opening in [exact(), uncounted(UncountedReason::Off)] {
            for close in Close::ALL {
                let judgement = judged(Opening { reports, ..opening }, &[counted(INPUT, 10)], close);
                assert_eq!(summary(judgement), (outcome, None, 0, 0));
            }
        }
    }
}

#[test]
fn another_prompt_length_is_mismatched_whatever_else_is_wrong() {
    for reused in [Figure::Count(10), Figure::Invalid] {
        let report = usage(Figure::Count(INPUT + 1), reused);
        let judgement = judged(exact(), &[report], Close::Completed);
        assert_eq!(summary(judgement), (ReportOutcome::Mismatched, None, 0, INPUT));
    }
}

#[test]
fn numbers_that_are_none_and_half_pairs_are_invalid() {
    let prompt = Figure::Count(INPUT);
    let half = WorkerReport { source: ReportSource::EngineData, prompt, reused: Figure::Absent };
    let overflow = Figure::Count(u64::MAX);
    let reports = [
        half,
        usage(prompt, Figure::Invalid),
        usage(prompt, overflow),
        usage(Figure::Invalid, Figure::Count(1)),
        usage(Figure::Absent, Figure::Count(1)),
    ];
    for report in reports {
        let judgement = judged(exact(), &[report], Close::Completed);
        assert_eq!(summary(judgement), (ReportOutcome::Invalid, None, 0, INPUT), "{report:?}");
    }
}

#[test]
fn an_invalid_report_of_an_uncounted_attempt_is_expected_by_the_engines_prompt() {
    let report = usage(Figure::Count(70), Figure::Invalid);
    let judgement = judged(uncounted(UncountedReason::Off), &[report], Close::Completed);
    assert_eq!(summary(judgement), (ReportOutcome::Invalid, None, 0, 70));
}

#[test]
fn silence_is_missing_when_completed_and_unfinished_otherwise() {
    let silent = usage(Figure::Count(INPUT), Figure::Absent);
    for reports in [&[][..], &[silent]] {
        assert_eq!(
            summary(judged(exact(), reports, Close::Completed)),
            (ReportOutcome::Missing, None, 0, INPUT)
        );
        for close in [Close::Failed, Close::Cancelled] {
            assert_eq!(summary(judged(exact(), reports, close)), (ReportOutcome::Unfinished, None, 0, 0));
        }
    }
}

#[test]
fn a_silent_uncounted_attempt_is_expected_only_by_the_engines_prompt() {
    let silent = usage(Figure::Count(70), Figure::Absent);
    let off = uncounted(UncountedReason::Off);
    assert_eq!(summary(judged(off, &[silent], Close::Completed)), (ReportOutcome::Missing, None, 0, 70));
    assert_eq!(summary(judged(off, &[], Close::Completed)), (ReportOutcome::Missing, None, 0, 0));

    let recorder = Recorder::default();
    let mut ledger = AttemptLedger::open(off, recorder.clone());
    ledger.engine_counted(70);
    ledger.engine_counted(u64::MAX);
    drop(ledger.close(Close::Completed));
    assert_eq!(summary(recorder.judgements()[0]), (ReportOutcome::Missing, None, 0, 70));
}

#[test]
fn mismatched_comes_before_invalid_and_both_before_the_ending() {
    let mismatched = counted(INPUT - 1, 0);
    let invalid = usage(Figure::Count(INPUT), Figure::Invalid);
    for close in Close::ALL {
        for reports in [[mismatched, invalid], [invalid, mismatched]] {
            assert_eq!(judged(exact(), &reports, close).outcome, ReportOutcome::Mismatched);
        }
        assert_eq!(judged(exact(), &[invalid], close).outcome, ReportOutcome::Invalid);
    }
}

#[test]
fn the_first_valid_report_counts_at_once_even_after_bad_ones_and_nothing_undoes_it() {
    let recorder = Recorder::default();
    let mut ledger = AttemptLedger::open(exact(), recorder.clone());
    assert_eq!(ledger.report(&usage(Figure::Count(INPUT), Figure::Invalid)), None);
    assert_eq!(ledger.report(&counted(INPUT + 5, 1)), None);
    assert_eq!(ledger.outcome(), None);
    assert!(ledger.report(&counted(INPUT, 32)).is_some());
    assert_eq!(recorder.judgements().len(), 1);
    assert_eq!((ledger.outcome(), ledger.reused()), (Some(ReportOutcome::Reported), Some(Tokens::new(32))));

    assert_eq!(ledger.report(&counted(INPUT, 64)), None);
    assert_eq!(ledger.report(&usage(Figure::Invalid, Figure::Invalid)), None);
    let closing = ledger.close(Close::Failed).closing;
    assert_eq!(closing.reused, Some(Tokens::new(32)));
    assert_eq!(recorder.judgements().len(), 1);
}

#[test]
fn a_dropped_ledger_is_cancelled_once() {
    let recorder = Recorder::default();
    let mut ledger = AttemptLedger::open(exact(), recorder.clone());
    ledger.dispatched();
    drop(ledger);
    let closing = Closing {
        close: Close::Cancelled,
        dispatched: true,
        outcome: Some(ReportOutcome::Unfinished),
        reused: None,
        observation: None,
    };
    assert_eq!(recorder.closings(), [closing]);
}

#[test]
fn a_history_that_contradicts_its_attempt_is_not_consistent() {
    let tokens = Tokens::new;
    let Count::Exact { input, cached: Some(cached) } = exact().count else { panic!("{:?}", exact()) };
    let with = |history: Option<u64>, told: Option<u64>| {
        let [history, told] = [history, told].map(|history| history.map(tokens));
        let ledger = Some(LedgerTerms { losses: closing(input, told, &cached), reusable: tokens(96) });
        Opening { history, ledger, ..exact() }.is_consistent()
    };
    assert!(with(None, None) && with(Some(0), Some(0)) && with(Some(INPUT), Some(INPUT)));
    assert!(!with(Some(64), None) && !with(None, Some(64)) && !with(Some(64), Some(48)));
    assert!(!with(Some(INPUT + 1), Some(INPUT + 1)), "more than came in");
    let opening = Opening { history: Some(tokens(64)), ..exact() };
    assert!(!Opening { ledger: None, ..opening }.is_consistent(), "of a phase that is not observed");
    let blind = Count::Exact { input, cached: None };
    assert!(!Opening { count: blind, ledger: None, ..opening }.is_consistent(), "without an index");
    let off = uncounted(UncountedReason::Off);
    assert!(off.is_consistent() && !Opening { history: Some(tokens(0)), ..off }.is_consistent());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "cached stages out of order")]
fn stages_that_contradict_each_other_are_caught_where_assertions_are_on() {
    let tokens = Tokens::new;
    let cached = CachedStages { anywhere: tokens(8), best: tokens(8), selected: tokens(16) };
    let count = Count::Exact { input: tokens(INPUT), cached: Some(cached) };
    let _ = AttemptLedger::open(Opening { count, ..exact() }, Recorder::default());
}

// === any sequence against a model ===

fn any_count() -> impl Strategy<Value = Count> {
    let exact = (0u64..8, 0u64..8, 0u64..8, 0u64..8, any::<bool>()).prop_map(|(a, b, c, d, indexed)| {
        let [selected, best, anywhere, input] = sorted([a, b, c, d]).map(Tokens::new);
        let cached = indexed.then_some(CachedStages { anywhere, best, selected });
        Count::Exact { input, cached }
    });
    let uncounted = prop::sample::select(&UncountedReason::ALL[..]).prop_map(Count::Uncounted);
    prop_oneof![3 => exact, 1 => uncounted]
}

fn sorted(mut numbers: [u64; 4]) -> [u64; 4] {
    numbers.sort_unstable();
    numbers
}

fn any_opening() -> impl Strategy<Value = Opening> {
    let reports = prop_oneof![
        4 => Just(ReportExpectation::Expected),
        1 => Just(ReportExpectation::Ambiguous),
        1 => Just(ReportExpectation::Excluded),
    ];
    let facts = (0u64..8, prop::option::of(0u64..8), any::<bool>());
    (any_count(), reports, facts).prop_map(|(count, reports, (reusable, history, is_repeat))| {
        let asked = count.input().filter(|_| count.cached().is_some());
        let history = asked.and_then(|input| Some(Tokens::new(history?).min(input)));
        let losses = asked.zip(count.cached()).map(|(input, cached)| closing(input, history, &cached));
        let ledger = losses.map(|losses| LedgerTerms { losses, reusable: Tokens::new(reusable) });
        Opening { count, history, reports, ledger, is_repeat }
    })
}

fn any_figure() -> impl Strategy<Value = Figure> {
    prop_oneof![
        6 => (0u64..8).prop_map(Figure::Count),
        1 => Just(Figure::Absent),
        1 => Just(Figure::Invalid),
        1 => Just(Figure::Count(u64::MAX)),
    ]
}

fn any_report() -> impl Strategy<Value = WorkerReport> {
    let source = prop_oneof![Just(ReportSource::EngineData), Just(ReportSource::Usage)];
    (source, any_figure(), any_figure()).prop_map(|(source, prompt, reused)| WorkerReport {
        source,
        prompt,
        reused,
    })
}

/// A usable count.
fn number(figure: Figure) -> Option<u64> {
    figure.count().filter(|count| *count != u64::MAX)
}

/// The outcome table read as prose: conditions over the whole attempt, the first that applies.
fn model(
    opening: &Opening,
    reports: &[WorkerReport],
    close: Close,
) -> Option<(ReportOutcome, Option<u64>, u64, u64)> {
    let input = opening.count.input().map(Tokens::get);
    let pair = |report: &WorkerReport| number(report.prompt).zip(number(report.reused));
    let agrees = |prompt: u64| input.is_none_or(|input| input == prompt);
    let speaks =
        |report: &&WorkerReport| report.source == ReportSource::EngineData || report.reused != Figure::Absent;
    let first_valid = reports.iter().filter_map(pair).find(|(prompt, _)| agrees(*prompt));
    let differs = |report: &WorkerReport| number(report.prompt).is_some_and(|prompt| !agrees(prompt));

    if opening.count == Count::Uncounted(UncountedReason::Endpoint) {
        return None;
    }
    let outcome = match (opening.reports, first_valid) {
        (ReportExpectation::Excluded, _) => ReportOutcome::Excluded,
        (ReportExpectation::Ambiguous, _) => ReportOutcome::Ambiguous,
        (_, Some(_)) if input.is_none() => ReportOutcome::Unchecked,
        (_, Some((prompt, reused))) if reused > prompt => ReportOutcome::Impossible,
        (_, Some(_)) => ReportOutcome::Reported,
        _ if reports.iter().filter(speaks).any(differs) => ReportOutcome::Mismatched,
        _ if reports.iter().any(|report| speaks(&report)) => ReportOutcome::Invalid,
        _ if close != Close::Completed => ReportOutcome::Unfinished,
        _ => ReportOutcome::Missing,
    };
    let counted = first_valid.filter(|_| outcome.adds_reuse());
    let engine_input = reports.iter().filter_map(|report| number(report.prompt)).next_back();
    let known_input = input.or_else(|| Some(counted?.0)).or(engine_input).unwrap_or(0);
    let could_report =
        !matches!(outcome, ReportOutcome::Excluded | ReportOutcome::Ambiguous | ReportOutcome::Unfinished);
    let reported_input = if counted.is_some() { known_input } else { 0 };
    let expected_input = if could_report { known_input } else { 0 };
    Some((outcome, counted.map(|(_, reused)| reused), reported_input, expected_input))
}

proptest! {
    #[test]
    fn any_attempt_is_judged_once_and_as_the_table_says(
        opening in any_opening(),
        reports in prop::collection::vec(any_report(), 0..6),
        ending in prop::option::of(prop::sample::select(&Close::ALL[..])),
        is_dispatched in any::<bool>(),
        is_taught in any::<bool>(),
    ) {
        let recorder = Recorder::default();
        let mut ledger = AttemptLedger::open(opening, recorder.clone());
        if is_dispatched {
            ledger.dispatched();
        }
        for report in &reports {
            ledger.report(report);
        }
        if is_taught {
            ledger.taught();
        }
        match ending {
            Some(close) => drop(ledger.close(close)),
            None => drop(ledger),
        }

        let close = ending.unwrap_or(Close::Cancelled);
        let expected = model(&opening, &reports, close);
        let judgements = recorder.judgements();
        prop_assert_eq!(judgements.first().copied().map(summary), expected);
        prop_assert!(judgements.len() <= 1);
        prop_assert!(judgements.iter().all(Judgement::is_consistent));

        let closings = recorder.closings();
        prop_assert_eq!(closings.len(), 1);
        prop_assert_eq!((closings[0].close, closings[0].dispatched), (close, is_dispatched));
        let judged = judgements.first();
        prop_assert_eq!(closings[0].outcome, judged.map(|judgement| judgement.outcome));
        prop_assert_eq!(closings[0].reused, judged.and_then(|judgement| judgement.reused));
        let told = if is_taught { HistoryObservation::Complete } else { HistoryObservation::Incomplete };
        prop_assert_eq!(closings[0].observation, opening.history.map(|_| told));

        let calls = recorder.0.borrow();
        prop_assert_eq!(calls.first(), Some(&Call::Opened(opening)));
        let places = |wanted: fn(&Call) -> bool| calls.iter().position(wanted);
        let judged_at = places(|call| matches!(call, Call::Judged(_)));
        let closed_at = places(|call| matches!(call, Call::Closed(_)));
        let lost_at = |late: bool| calls.iter().enumerate().filter(move |(_, call)| {
            matches!(call, Call::Undelivered(reason, _) if (*reason != DeliveryReason::LastBlock) == late)
        }).map(|(place, _)| place);
        prop_assert!(judged_at < closed_at);
        prop_assert!(lost_at(false).all(|place| Some(place) == judged_at.map(|judged| judged + 1)));
        prop_assert!(lost_at(true).all(|place| place + 1 == calls.len() && Some(place) > closed_at));
    }

    #[test]
    fn the_totals_of_many_attempts_never_show_more_coverage_than_one(
        attempts in prop::collection::vec((any_opening(), prop::collection::vec(any_report(), 0..4)), 0..20),
    ) {
        let recorder = Recorder::default();
        for (opening, reports) in &attempts {
            let mut ledger = AttemptLedger::open(*opening, recorder.clone());
            for report in reports {
                ledger.report(report);
            }
            drop(ledger.close(Close::Completed));
        }
        let judgements = recorder.judgements();
        let total = |of: fn(&Judgement) -> Tokens| judgements.iter().map(of).sum::<Tokens>();
        prop_assert!(total(|judgement| judgement.reported_input) <= total(|judgement| judgement.expected_input));
        let with_outcome = attempts.iter().filter(|(opening, _)| opening.takes_report()).count();
        prop_assert_eq!(judgements.len(), with_outcome);
    }
}
