//! Every part of the difference by example, then the account over any attempts, abandoned at any point.

use std::cell::RefCell;
use std::rc::Rc;

use kvroute_core::{BlockSize, Figure, ReportSource, WorkerReport};
use proptest::prelude::*;

use super::*;
use crate::losses::tests::closing;
use crate::{
    AttemptLedger, CachedStages, Close, Closing, Count, Judgement, LedgerTerms, Opening, ReportExpectation,
    ReportOutcome, UncountedReason,
};

/// Adds up as the metrics do.
#[derive(Clone, Debug, Default)]
struct Totals(Rc<RefCell<Account>>);

/// Plain numbers of tokens; of losses, in the order of the reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    predicted: u64,
    reported: u64,
    surplus: u64,
    lost: [u64; DeliveryReason::ALL.len()],
    /// Bookings of a loss: at most one a reason and attempt.
    bookings: u64,
}

impl FunnelSink for Totals {
    fn opened(&self, _: &Opening) {}

    fn judged(&self, judgement: &Judgement) {
        if let Some(delivery) = judgement.delivery {
            let mut account = self.0.borrow_mut();
            account.predicted += delivery.predicted.get();
            account.reported += delivery.reported.get();
            account.surplus += delivery.surplus.get();
        }
    }

    fn undelivered(&self, reason: DeliveryReason, tokens: Tokens) {
        let mut account = self.0.borrow_mut();
        account.lost[reason as usize] += tokens.get();
        account.bookings += 1;
    }

    fn closed(&self, _: &Closing) {}
}

impl Totals {
    fn account(&self) -> Account {
        self.0.borrow().clone()
    }

    /// Lost tokens: last block, stale index, unexplained.
    fn lost(&self) -> [u64; 3] {
        self.0.borrow().lost
    }
}

impl Account {
    fn closes(&self) -> bool {
        let tokens = Tokens::new;
        let lost = self.lost.iter().sum();
        invariants::delivery_closes(
            tokens(self.predicted),
            tokens(self.reported),
            tokens(lost),
            tokens(self.surplus),
        )
    }
}

const BLOCK: u32 = 16;

/// Prompts of these lengths on a worker with blocks of 16, of which the index promised so much.
fn promised(prompts: &[u64], promise: u64) -> Opening {
    let size = BlockSize::new(BLOCK).unwrap();
    let input = Tokens::new(prompts.iter().sum());
    let promise = Tokens::new(promise);
    let cached = CachedStages { anywhere: promise, best: promise, selected: promise };
    let reusable = prompts.iter().map(|&prompt| size.reusable_tokens(Tokens::new(prompt))).sum();
    Opening {
        history: None,
        count: Count::Exact { input, cached: Some(cached) },
        reports: ReportExpectation::Expected,
        ledger: Some(LedgerTerms { losses: closing(input, None, &cached), reusable }),
        is_repeat: false,
    }
}

fn report(prompt: u64, reused: u64) -> WorkerReport {
    WorkerReport { source: ReportSource::Usage, prompt: Figure::Count(prompt), reused: Figure::Count(reused) }
}

/// An attempt that reported so much reuse, still open.
fn reported(totals: &Totals, opening: Opening, reused: u64) -> AttemptLedger<Totals> {
    let mut ledger = AttemptLedger::open(opening, totals.clone());
    let input = opening.count.input().unwrap().get();
    assert!(ledger.report(&report(input, reused)).is_some());
    ledger
}

/// The same, closed: what is left to decide.
fn closed(totals: &Totals, opening: Opening, reused: u64) -> Option<PendingDelivery<Totals>> {
    reported(totals, opening, reused).close(Close::Completed).pending
}

#[test]
fn a_promise_that_is_kept_loses_nothing() {
    let totals = Totals::default();
    assert!(closed(&totals, promised(&[100], 96), 96).is_none());
    assert_eq!(totals.account(), Account { predicted: 96, reported: 96, ..Account::default() });
}

#[test]
fn the_last_block_of_a_prompt_that_ends_on_a_boundary_is_lost_by_nature() {
    let totals = Totals::default();
    assert!(closed(&totals, promised(&[64], 64), 48).is_none());
    assert_eq!(totals.lost(), [16, 0, 0]);
    assert_eq!(totals.account().bookings, 1);
}

#[test]
fn the_last_token_of_a_prompt_that_ends_within_a_block_costs_nothing() {
    let totals = Totals::default();
    drop(closed(&totals, promised(&[65], 64), 48));
    assert_eq!(totals.lost(), [0, 0, 16]);
}

#[test]
fn the_last_block_is_at_most_what_is_lost() {
    let totals = Totals::default();
    assert!(closed(&totals, promised(&[64], 64), 60).is_none());
    assert_eq!(totals.lost(), [4, 0, 0]);
}

#[test]
fn every_prompt_of_a_list_gives_up_its_own_last_block() {
    let totals = Totals::default();
    let pending = closed(&totals, promised(&[32, 48, 40], 112), 64).unwrap();
    assert_eq!((pending.tokens(), totals.lost()), (Tokens::new(16), [32, 0, 0]));
    drop(pending);
}

#[test]
fn reuse_beyond_the_promise_is_a_surplus_and_no_negative_loss() {
    let totals = Totals::default();
    assert!(closed(&totals, promised(&[100], 32), 80).is_none());
    let account = Account { predicted: 32, reported: 80, surplus: 48, ..Account::default() };
    assert_eq!(totals.account(), account);
}

#[test]
fn the_rest_of_a_loss_waits_for_its_reason_and_takes_it_once() {
    type Decision = fn(PendingDelivery<Totals>);
    let decisions: [(Decision, [u64; 3]); 3] = [
        (PendingDelivery::stale_index, [16, 32, 0]),
        (PendingDelivery::unexplained, [16, 0, 32]),
        (drop, [16, 0, 32]),
    ];
    for (decide, lost) in decisions {
        let totals = Totals::default();
        let pending = closed(&totals, promised(&[64], 64), 16).unwrap();
        assert_eq!((pending.tokens(), totals.lost()), (Tokens::new(32), [16, 0, 0]));
        decide(pending);
        assert_eq!((totals.lost(), totals.account().bookings), (lost, 2));
    }
}

#[test]
fn a_delivery_stands_however_its_attempt_ends_and_whatever_is_said_afterwards() {
    for close in Close::ALL {
        let totals = Totals::default();
        let mut ledger = reported(&totals, promised(&[64], 64), 16);
        assert!(ledger.report(&report(64, 64)).is_none());
        let pending = ledger.close(close).pending.unwrap();
        pending.stale_index();
        let lost = [16, 32, 0];
        let account = Account { predicted: 64, reported: 16, surplus: 0, lost, bookings: 2 };
        assert_eq!(totals.account(), account);
    }
}

#[test]
fn a_dropped_ledger_has_nobody_to_explain_its_loss() {
    let totals = Totals::default();
    drop(reported(&totals, promised(&[64], 64), 16));
    assert_eq!(totals.lost(), [16, 0, 32]);
}

#[test]
fn only_what_was_promised_and_truly_reported_is_compared() {
    let indexed = promised(&[64], 64);
    let without_view =
        Opening { count: Count::Exact { input: Tokens::new(64), cached: None }, ledger: None, ..indexed };
    let uncounted = Opening { count: Count::Uncounted(UncountedReason::Off), ledger: None, ..indexed };
    let cases = [
        (indexed, Some(report(64, 65)), ReportOutcome::Impossible),
        (indexed, Some(report(63, 16)), ReportOutcome::Mismatched),
        (indexed, None, ReportOutcome::Missing),
        (
            Opening { reports: ReportExpectation::Ambiguous, ..indexed },
            Some(report(64, 16)),
            ReportOutcome::Ambiguous,
        ),
        (
            Opening { reports: ReportExpectation::Excluded, ..indexed },
            Some(report(64, 16)),
            ReportOutcome::Excluded,
        ),
        (Opening { ledger: None, ..indexed }, Some(report(64, 16)), ReportOutcome::Reported),
        (without_view, Some(report(64, 16)), ReportOutcome::Reported),
        (uncounted, Some(report(64, 16)), ReportOutcome::Unchecked),
    ];
    for (opening, said, outcome) in cases {
        let totals = Totals::default();
        let mut ledger = AttemptLedger::open(opening, totals.clone());
        if let Some(said) = said {
            ledger.report(&said);
        }
        let end = ledger.close(Close::Completed);
        assert_eq!(end.closing.outcome, Some(outcome));
        assert!(end.pending.is_none());
        assert_eq!(totals.account(), Account::default());
    }
}

#[test]
fn terms_of_a_delivery_that_nothing_was_promised_for_are_a_contradiction() {
    let indexed = promised(&[64], 64);
    let without_view = Count::Exact { input: Tokens::new(64), cached: None };
    assert!(indexed.is_consistent());
    assert!(Opening { ledger: None, ..indexed }.is_consistent());
    for count in [without_view, Count::Uncounted(UncountedReason::Off)] {
        assert!(!Opening { count, ..indexed }.is_consistent());
        assert!(Opening { count, ledger: None, ..indexed }.is_consistent());
    }
}

// === any attempts ===

/// What happens to one attempt after its reports.
#[derive(Clone, Copy, Debug)]
enum End {
    Close(Close, Decision),
    Drop,
}

/// What happens to a loss without a reason.
#[derive(Clone, Copy, Debug)]
enum Decision {
    StaleIndex,
    Unexplained,
    Drop,
    /// Dropped only once all other attempts are over.
    Keep,
}

#[derive(Clone, Debug)]
struct Story {
    opening: Opening,
    reports: Vec<WorkerReport>,
    end: End,
}

fn any_opening() -> impl Strategy<Value = Opening> {
    let prompts = prop::collection::vec(1u64..100, 1..4);
    let reports = prop_oneof![
        6 => Just(ReportExpectation::Expected),
        1 => Just(ReportExpectation::Ambiguous),
        1 => Just(ReportExpectation::Excluded),
    ];
    (prompts, 0u64..20, any::<bool>(), reports).prop_map(|(prompts, blocks, has_view, reports)| {
        let whole_blocks = prompts.iter().map(|prompt| prompt / u64::from(BLOCK)).sum::<u64>();
        let opening = promised(&prompts, blocks.min(whole_blocks) * u64::from(BLOCK));
        let Count::Exact { input, .. } = opening.count else { unreachable!() };
        let blind = Opening { count: Count::Exact { input, cached: None }, ledger: None, ..opening };
        Opening { reports, ..if has_view { opening } else { blind } }
    })
}

fn any_end() -> impl Strategy<Value = End> {
    let decision = prop::sample::select(
        &[Decision::StaleIndex, Decision::Unexplained, Decision::Drop, Decision::Keep][..],
    );
    let close = prop::sample::select(&Close::ALL[..]);
    prop_oneof![
        4 => (close, decision).prop_map(|(close, decision)| End::Close(close, decision)),
        1 => Just(End::Drop),
    ]
}

/// Reports of the right prompt length for the most part, of reuse up to a little above it.
fn any_story() -> impl Strategy<Value = Story> {
    let said = (0u64..110, 0u64..10);
    (any_opening(), prop::collection::vec(said, 0..3), any_end()).prop_map(|(opening, said, end)| {
        let input = opening.count.input().unwrap().get();
        let reports = said
            .into_iter()
            .map(|(percent, strange)| report(input + u64::from(strange == 0), input * percent / 100));
        Story { opening, reports: reports.collect(), end }
    })
}

/// The account of one story, read from the specification: the first valid report against the promise.
fn expected(story: &Story) -> Account {
    let mut account = Account::default();
    let (Some(cached), Some(terms)) = (story.opening.count.cached(), story.opening.ledger) else {
        return account;
    };
    let input = story.opening.count.input().unwrap().get();
    let valid = story.reports.iter().find(|report| report.prompt.count() == Some(input));
    let Some(reused) = valid.and_then(|report| report.reused.count()) else { return account };
    if story.opening.reports != ReportExpectation::Expected || reused > input {
        return account;
    }
    let (promise, reusable) = (cached.selected.get(), terms.reusable.get());
    account.predicted = promise;
    account.reported = reused;
    if reused >= promise {
        account.surplus = reused - promise;
        return account;
    }
    let lost = promise - reused;
    let last_block = if promise > reusable { lost.min(promise - reusable) } else { 0 };
    let late = match story.end {
        End::Close(_, Decision::StaleIndex) => DeliveryReason::StaleIndex,
        _ => DeliveryReason::Unexplained,
    };
    account.lost[DeliveryReason::LastBlock as usize] = last_block;
    account.lost[late as usize] = lost - last_block;
    account.bookings = account.lost.iter().filter(|tokens| **tokens > 0).count() as u64;
    account
}

/// Plays a story; a loss that is kept comes back.
fn play(story: &Story, totals: &Totals) -> Option<PendingDelivery<Totals>> {
    let mut ledger = AttemptLedger::open(story.opening, totals.clone());
    for report in &story.reports {
        ledger.report(report);
    }
    let End::Close(close, decision) = story.end else {
        drop(ledger);
        return None;
    };
    let pending = ledger.close(close).pending?;
    match decision {
        Decision::StaleIndex => pending.stale_index(),
        Decision::Unexplained => pending.unexplained(),
        Decision::Drop => drop(pending),
        Decision::Keep => return Some(pending),
    }
    None
}

proptest! {
    #[test]
    fn an_attempt_is_accounted_as_specified_and_its_account_closes(story in any_story()) {
        let totals = Totals::default();
        drop(play(&story, &totals));
        prop_assert!(totals.account().closes(), "{:?}", totals.account());
        prop_assert_eq!(totals.account(), expected(&story));
    }

    #[test]
    fn the_account_of_any_attempts_closes_once_nothing_is_pending(
        stories in prop::collection::vec(any_story(), 0..30),
    ) {
        let totals = Totals::default();
        let kept: Vec<_> = stories.iter().filter_map(|story| play(story, &totals)).collect();
        let open: u64 = kept.iter().map(|pending| pending.tokens().get()).sum();
        let mut with_open = totals.account();
        with_open.lost[DeliveryReason::Unexplained as usize] += open;
        prop_assert!(with_open.closes(), "{with_open:?}");
        prop_assert_eq!(totals.account().closes(), kept.is_empty());

        drop(kept);
        prop_assert!(totals.account().closes(), "{:?}", totals.account());
        let sum = |of: fn(&Account) -> u64| stories.iter().map(|story| of(&expected(story))).sum::<u64>();
        prop_assert_eq!(totals.account().predicted, sum(|account| account.predicted));
        prop_assert_eq!(totals.account().bookings, sum(|account| account.bookings));
    }
}
