//! Attempts of every kind side by side, their steps in any order: with and without an index view or a history, of every
//! phase, counted or not, tried again, reporting whatever engines report, abandoned at any point. The equations hold over all of them at every
//! moment that they are said to hold.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use kvroute_core::{Exclusion, Figure, PlacementReason, RemovalCause, ReportSource, Tokens, WorkerReport};
use kvroute_funnel::{
    AbsentLoss, AttemptLedger, CachedStages, Close, Closing, Count, DeliveryReason, FunnelSink, HistoryLoss,
    HistoryTerms, Judgement, LedgerTerms, MissingBlock, Opening, PendingDelivery, ReportExpectation,
    ReportOutcome, SelectionLosses, UnavailableLoss, UncountedReason,
};
use proptest::prelude::*;

/// The books of one phase, added up from what a sink is told.
#[derive(Clone, Debug, Default)]
struct Books {
    input: u64,
    ledger_input: u64,
    /// F1.
    history: u64,
    observed_input: u64,
    observed: u64,
    observations: BTreeMap<&'static str, u64>,
    /// Observed attempts that the history learned, once each.
    taught: u64,
    /// A, F2 and F3.
    stages: [u64; 3],
    new: u64,
    residency: u64,
    residency_surplus: u64,
    unavailable: u64,
    eligibility: u64,
    placement: u64,
    predicted: u64,
    reported: u64,
    surplus: u64,
    delivery: u64,
    reused: u64,
    /// F4 of the attempts with outcome `reported` alone.
    truly_reused: u64,
    reported_input: u64,
    expected_input: u64,
    truly_reported_input: u64,
    uncached: u64,
    repeated: u64,
    opened: u64,
    uncounted: u64,
    mute: u64,
    outcomes: BTreeMap<&'static str, u64>,
    closed: BTreeMap<&'static str, u64>,
    dispatched: u64,
}

/// Where the numbers of one attempt go, with what it may be told once only.
#[derive(Debug)]
struct Sink {
    books: Rc<RefCell<Books>>,
    opening: RefCell<Option<Opening>>,
    judged: RefCell<u32>,
    closed: RefCell<u32>,
    /// At most one booking a reason.
    undelivered: RefCell<Vec<DeliveryReason>>,
}

impl FunnelSink for Sink {
    fn opened(&self, opening: &Opening) {
        assert!(self.opening.replace(Some(*opening)).is_none(), "opened twice");
        let mut books = self.books.borrow_mut();
        books.opened += 1;
        let (input, cached) = match opening.count {
            Count::Uncounted(reason) => {
                books.uncounted += 1;
                books.mute += u64::from(reason == UncountedReason::Endpoint);
                return;
            }
            Count::Exact { input, cached } => (input.get(), cached),
        };
        books.input += input;
        books.repeated += if opening.is_repeat { input } else { 0 };
        if let Some(history) = opening.history {
            books.observed += 1;
            books.observed_input += input;
            books.history += history.get();
        }
        let Some(CachedStages { anywhere, best, selected }) = cached else { return };
        for (sum, stage) in books.stages.iter_mut().zip([anywhere, best, selected]) {
            *sum += stage.get();
        }
        if let Some(LedgerTerms { losses, .. }) = opening.ledger {
            books.ledger_input += input;
            match losses.absent {
                AbsentLoss::Unavailable(loss) => books.unavailable += loss.total().get(),
                AbsentLoss::ByHistory(loss) => {
                    books.new += loss.new_tokens().get();
                    books.residency += loss.residency_tokens().get();
                    books.residency_surplus += loss.surplus_tokens().get();
                }
            }
            books.eligibility += losses.eligibility.map_or(0, |_| (anywhere - best).get());
            books.placement += losses.placement.map_or(0, |_| (best - selected).get());
        }
    }

    fn judged(&self, judgement: &Judgement) {
        self.judged.replace_with(|times| *times + 1);
        let mut books = self.books.borrow_mut();
        *books.outcomes.entry(judgement.outcome.as_str()).or_default() += 1;
        books.reused += judgement.reused.unwrap_or_default().get();
        books.reported_input += judgement.reported_input.get();
        books.expected_input += judgement.expected_input.get();
        books.uncached += judgement.uncached().unwrap_or_default().get();
        if judgement.outcome == ReportOutcome::Reported {
            books.truly_reused += judgement.reused.unwrap().get();
            books.truly_reported_input += judgement.reported_input.get();
        }
        if let Some(delivery) = judgement.delivery {
            books.predicted += delivery.predicted.get();
            books.reported += delivery.reported.get();
            books.surplus += delivery.surplus.get();
        }
    }

    fn undelivered(&self, reason: DeliveryReason, tokens: Tokens) {
        assert!(!self.undelivered.borrow().contains(&reason), "{reason:?} twice");
        assert!(!tokens.is_zero(), "{reason:?} of nothing");
        assert!(*self.judged.borrow() == 1, "lost before it was reported");
        self.undelivered.borrow_mut().push(reason);
        self.books.borrow_mut().delivery += tokens.get();
    }

    fn closed(&self, closing: &Closing) {
        self.closed.replace_with(|times| *times + 1);
        let mut books = self.books.borrow_mut();
        *books.closed.entry(closing.close.as_str()).or_default() += 1;
        books.dispatched += u64::from(closing.dispatched);
        let has_history = self.opening.borrow().is_some_and(|opening| opening.history.is_some());
        assert_eq!(closing.observation.is_some(), has_history, "{closing:?}");
        if let Some(observation) = closing.observation {
            *books.observations.entry(observation.as_str()).or_default() += 1;
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let takes_report = self.opening.borrow().is_some_and(|opening| opening.takes_report());
        let told = (*self.judged.borrow(), *self.closed.borrow());
        assert!(
            std::thread::panicking() || told == (u32::from(takes_report), 1),
            "judged and closed {told:?}"
        );
    }
}

// === impl Books ===

impl Books {
    /// What is added in one call holds at every moment.
    fn assert_stages(&self) {
        let [anywhere, best, selected] = self.stages;
        assert!(selected <= best && best <= anywhere, "{self:?}");
        assert!(self.ledger_input <= self.input, "{self:?}");
        assert!(self.repeated <= self.input, "{self:?}");
    }

    /// What holds of the phases that the loss ledger covers.
    fn assert_ledger(&self) {
        let [anywhere, best, selected] = self.stages;
        assert_eq!(
            self.ledger_input + self.residency_surplus,
            self.new + self.residency + self.unavailable + anywhere,
            "L + surplus = new + residency + unavailable + A: {self:?}"
        );
        assert_eq!(self.observed_input, self.new + self.history, "observed = new + F1: {self:?}");
        assert!(self.observed_input <= self.ledger_input, "{self:?}");
        assert_eq!(anywhere, best + self.eligibility, "A = F2 + eligibility: {self:?}");
        assert_eq!(best, selected + self.placement, "F2 = F3 + placement: {self:?}");
    }

    /// What holds once nothing is open or pending.
    fn assert_rest(&self) {
        assert_eq!(self.predicted + self.surplus, self.reported + self.delivery, "{self:?}");
        assert!(self.predicted <= self.stages[2] && self.reported <= self.truly_reused, "{self:?}");
        assert_eq!(self.outcomes.values().sum::<u64>(), self.opened - self.mute, "{self:?}");
        assert_eq!(self.closed.values().sum::<u64>(), self.opened, "{self:?}");
        assert!(self.dispatched <= self.opened, "{self:?}");
        assert_eq!(self.observations.values().sum::<u64>(), self.observed, "{self:?}");
        assert_eq!(self.observations.get("complete").copied().unwrap_or(0), self.taught, "{self:?}");
        assert!(self.reported_input <= self.expected_input, "{self:?}");
        assert_eq!(self.uncached, self.truly_reported_input - self.truly_reused, "{self:?}");
        assert!(self.truly_reused <= self.reused, "{self:?}");
    }
}

/// What happens to one attempt next.
#[derive(Clone, Debug)]
enum Step {
    Dispatch,
    Teach,
    Report(WorkerReport),
    Counted(u64),
    Close(Close),
    Drop,
}

/// What becomes of a loss without a reason.
#[derive(Clone, Copy, Debug)]
enum Reason {
    StaleIndex,
    Unexplained,
    Drop,
}

/// One attempt: its phase, how it opens, what happens to it.
#[derive(Clone, Debug)]
struct Story {
    phase: usize,
    opening: Opening,
    steps: Vec<Step>,
    reason: Reason,
}

/// The phase that the loss ledger leaves out.
const DECODE: usize = 2;

const SIZE: u64 = 16;

fn any_losses(
    input: u64,
    history: Option<Tokens>,
    stages: CachedStages,
) -> impl Strategy<Value = SelectionLosses> {
    let block = (1u64..20, prop::option::of(prop::sample::select(RemovalCause::ALL.to_vec())), any::<bool>());
    let block = block.prop_map(|(tokens, removed, is_held)| MissingBlock {
        tokens: Tokens::new(tokens),
        removed,
        is_held,
    });
    let facts = (0u64..20, prop::collection::vec(block, 0..5), any::<bool>());
    let reasons =
        (prop::sample::select(Exclusion::ALL.to_vec()), prop::sample::select(PlacementReason::ALL.to_vec()));
    (facts, reasons).prop_map(move |((partial, blocks, blind), (eligibility, placement))| {
        let (input, partial, anywhere) = (Tokens::new(input), Tokens::new(partial), stages.anywhere);
        let unavailable = |blocks| UnavailableLoss::of(input - anywhere, partial, [blocks], blind);
        let absent = match history {
            None => AbsentLoss::Unavailable(unavailable(blocks)),
            Some(history) => {
                let terms = HistoryTerms { input, history, anywhere, partial };
                let prompt = (history.saturating_sub(anywhere), blocks);
                AbsentLoss::ByHistory(HistoryLoss::of(terms, [prompt], blind))
            }
        };
        SelectionLosses {
            absent,
            eligibility: (stages.best < stages.anywhere).then_some(eligibility),
            placement: (stages.selected < stages.best).then_some(placement),
        }
    })
}

fn any_opening(phase: usize) -> impl Strategy<Value = Opening> {
    let asks = (any::<bool>(), any::<bool>());
    let counted = (1u64..100, prop::array::uniform4(0u64..7), asks).prop_flat_map(
        move |(input, blocks, (view, asks_history))| {
            let [known, mut blocks @ ..] = blocks.map(|blocks| blocks.min(input / SIZE) * SIZE);
            blocks.sort_unstable();
            let [selected, best, anywhere] = blocks.map(Tokens::new);
            let stages = CachedStages { anywhere, best, selected };
            let history = (view && asks_history && phase != DECODE).then_some(Tokens::new(known));
            any_losses(input, history, stages).prop_map(move |losses| {
                let count = Count::Exact { input: Tokens::new(input), cached: view.then_some(stages) };
                let reusable = Tokens::new((input - 1) / SIZE * SIZE);
                let ledger = (view && phase != DECODE).then_some(LedgerTerms { losses, reusable });
                (count, history, ledger)
            })
        },
    );
    let uncounted = prop::sample::select(UncountedReason::ALL.to_vec())
        .prop_map(|reason| (Count::Uncounted(reason), None, None));
    let reports =
        prop_oneof![5 => Just(ReportExpectation::Expected), 1 => Just(ReportExpectation::Ambiguous)];
    (prop_oneof![4 => counted, 1 => uncounted], reports, any::<bool>()).prop_map(
        move |((count, history, ledger), reports, is_repeat)| {
            let reports = if phase == DECODE { ReportExpectation::Excluded } else { reports };
            Opening { count, history, reports, ledger, is_repeat }
        },
    )
}

fn any_step(input: u64) -> impl Strategy<Value = Step> {
    let figure = |right: u64| {
        prop_oneof![
            6 => Just(Figure::Count(right)),
            3 => (0..right + 20).prop_map(Figure::Count),
            1 => Just(Figure::Absent),
            1 => Just(Figure::Invalid),
            1 => Just(Figure::Count(u64::MAX)),
        ]
    };
    let source = prop_oneof![Just(ReportSource::EngineData), Just(ReportSource::Usage)];
    let report = (source, figure(input), figure(input / 2));
    prop_oneof![
        2 => Just(Step::Dispatch),
        1 => Just(Step::Teach),
        5 => report.prop_map(|(source, prompt, reused)| Step::Report(WorkerReport { source, prompt, reused })),
        1 => (0..input + 9).prop_map(Step::Counted),
        2 => prop::sample::select(Close::ALL.to_vec()).prop_map(Step::Close),
        1 => Just(Step::Drop),
    ]
}

fn any_story() -> impl Strategy<Value = Story> {
    let reason = prop_oneof![Just(Reason::StaleIndex), Just(Reason::Unexplained), Just(Reason::Drop)];
    (0usize..3, reason)
        .prop_flat_map(|(phase, reason)| (Just(phase), any_opening(phase), Just(reason)))
        .prop_flat_map(|(phase, opening, reason)| {
            let input = opening.count.input().map_or(40, Tokens::get);
            let steps = prop::collection::vec(any_step(input), 0..8);
            steps.prop_map(move |steps| Story { phase, opening, steps, reason })
        })
}

/// An attempt under way.
struct Underway {
    ledger: Option<AttemptLedger<Sink>>,
    steps: std::vec::IntoIter<Step>,
    reason: Reason,
    is_taught: bool,
    books: Rc<RefCell<Books>>,
}

type Pending = (PendingDelivery<Sink>, Reason);

impl Underway {
    /// Takes the next step; one without any is dropped. True once it is over.
    fn advance(&mut self, pending: &mut Vec<Pending>) -> bool {
        let Some(ledger) = &mut self.ledger else { return true };
        match self.steps.next() {
            Some(Step::Dispatch) => ledger.dispatched(),
            Some(Step::Teach) => {
                let is_first = !std::mem::replace(&mut self.is_taught, true);
                let is_observed = ledger.opening().history.is_some();
                self.books.borrow_mut().taught += u64::from(is_first && is_observed);
                ledger.taught();
            }
            Some(Step::Report(report)) => {
                let before = ledger.outcome();
                let judgement = ledger.report(&report);
                assert!(before.is_none() || judgement.is_none(), "judged anew");
                assert_eq!(ledger.outcome(), judgement.map(|judgement| judgement.outcome).or(before));
            }
            Some(Step::Counted(tokens)) => ledger.engine_counted(tokens),
            Some(Step::Close(close)) => {
                let closed = self.ledger.take().unwrap().close(close);
                assert_eq!(closed.closing.close, close);
                pending.extend(closed.pending.map(|pending| (pending, self.reason)));
            }
            Some(Step::Drop) | None => drop(self.ledger.take()),
        }
        self.ledger.is_none()
    }
}

fn decide((pending, reason): Pending) {
    match reason {
        Reason::StaleIndex => pending.stale_index(),
        Reason::Unexplained => pending.unexplained(),
        Reason::Drop => drop(pending),
    }
}

proptest! {
    #[test]
    fn any_mixture_of_attempts_closes(
        stories in prop::collection::vec(any_story(), 0..25),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
    ) {
        let phases: [Rc<RefCell<Books>>; 3] = Default::default();
        let (mut waiting, mut open, mut pending) = (stories.into_iter(), Vec::new(), Vec::new());
        let mut order = order.into_iter().cycle();
        loop {
            // Sooner or later a new one begins; whatever is open goes on in any order.
            let next = order.next().unwrap();
            if let Some(story) = (open.is_empty() || next.index(3) == 0).then(|| waiting.next()).flatten() {
                let books = Rc::clone(&phases[story.phase]);
                let sink = Sink {
                    books, opening: RefCell::default(), judged: RefCell::default(), closed: RefCell::default(),
                    undelivered: RefCell::default(),
                };
                let ledger = Some(AttemptLedger::open(story.opening, sink));
                open.push(Underway {
                    ledger, steps: story.steps.into_iter(), reason: story.reason, is_taught: false,
                    books: Rc::clone(&phases[story.phase]),
                });
            } else if open.is_empty() {
                break;
            } else {
                let chosen = next.index(open.len());
                if open[chosen].advance(&mut pending) {
                    open.swap_remove(chosen);
                }
            }
            if !pending.is_empty() && next.index(4) == 0 {
                decide(pending.swap_remove(next.index(pending.len())));
            }
            phases.iter().for_each(|books| books.borrow().assert_stages());
            phases[..DECODE].iter().for_each(|books| books.borrow().assert_ledger());
        }
        pending.into_iter().for_each(decide);
        phases.iter().for_each(|books| books.borrow().assert_rest());
        let decode = phases[DECODE].borrow();
        prop_assert_eq!((decode.ledger_input, decode.predicted, decode.reused), (0, 0, 0));
        prop_assert_eq!((decode.observed, decode.history), (0, 0));
    }
}
