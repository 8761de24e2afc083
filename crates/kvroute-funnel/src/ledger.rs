//! Exactly-once accounting of one routing attempt.
//!
//! An attempt opens at selection with what the router counted and the index knew, and closes once with what
//! the engine said. A valid report is counted at once, not at the end: an engine reports when its prefill is
//! done, and a client that leaves during a long generation must not take that knowledge with it. Everything
//! after the first valid report is ignored, so that nothing can undo or repeat it.
//!
//! What an engine reused less than was promised is lost from the moment of its report, too; how the attempt ends
//! changes nothing about it.
//!
//! Dropping an open ledger closes it as cancelled: a future that is dropped at any await leaves the totals
//! as complete as one that ran to its end. Only the reason of a loss is then `unexplained`, because nobody is
//! left to find it; who can wait for it closes the ledger instead and keeps what [`AttemptLedger::close`] gives.

use kvroute_core::{Figure, Tokens, WorkerReport};

use crate::judgement::{Reading, believable, settled_by_opening};
use crate::{
    Close, Closed, Closing, DeliveryReason, FunnelSink, HistoryObservation, Judgement, Opening,
    PendingDelivery, ReportOutcome,
};

/// The books of one attempt: one dispatch of one request to one rank in one phase.
#[derive(Debug)]
pub struct AttemptLedger<S: FunnelSink> {
    opening: Opening,
    /// `None` once it is closed.
    sink: Option<S>,
    dispatched: bool,
    is_taught: bool,
    reports: Reports,
}

/// What the reports so far amount to.
#[derive(Clone, Copy, Debug, Default)]
struct Reports {
    judgement: Option<Judgement>,
    mismatched: bool,
    invalid: bool,
    engine_input: Option<Tokens>,
}

// === impl AttemptLedger ===

impl<S: FunnelSink> AttemptLedger<S> {
    /// Opens the books: adds everything that is known at selection, in one call.
    pub fn open(opening: Opening, sink: S) -> Self {
        debug_assert!(opening.is_consistent(), "cached stages out of order: {opening:?}");
        sink.opened(&opening);
        Self { opening, sink: Some(sink), dispatched: false, is_taught: false, reports: Reports::default() }
    }

    /// What it was opened with.
    pub const fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Notes that the worker has the request now.
    pub fn dispatched(&mut self) {
        self.dispatched = true;
    }

    /// Notes that the history has learned the attempt.
    pub fn taught(&mut self) {
        self.is_taught = true;
    }

    /// Takes what a worker said. The first valid report is counted at once, with all that is known of its
    /// delivery; all others are ignored. Gives the judgement that this report caused, if it did.
    pub fn report(&mut self, report: &WorkerReport) -> Option<Judgement> {
        if !self.expects_report() {
            return None;
        }
        self.note_engine_input(report.prompt);
        match Reading::of(report, &self.opening) {
            Reading::Valid { reused, prompt } => {
                return Some(self.judge(Judgement::counted(&self.opening, reused, prompt)));
            }
            Reading::Mismatched => self.reports.mismatched = true,
            Reading::Invalid => self.reports.invalid = true,
            Reading::Silent => {}
        }
        None
    }

    /// The engine counted the prompt, without a word about reuse. Stands in for the input of an attempt that
    /// the router did not count, so that a missing report still shows as missing coverage.
    pub fn engine_counted(&mut self, prompt_tokens: u64) {
        self.note_engine_input(Figure::Count(prompt_tokens));
    }

    /// The outcome, once there is one: after a valid report, or after closing.
    pub fn outcome(&self) -> Option<ReportOutcome> {
        self.reports.judgement.map(|judgement| judgement.outcome)
    }

    /// F4, once it was counted.
    pub fn reused(&self) -> Option<Tokens> {
        self.reports.judgement.and_then(|judgement| judgement.reused)
    }

    /// Closes the books. What was not judged by now is judged by its absence. A loss that has no reason yet goes
    /// with the result, however the attempt ended.
    pub fn close(mut self, close: Close) -> Closed<S> {
        self.settle(close)
    }

    fn note_engine_input(&mut self, prompt: Figure) {
        self.reports.engine_input = believable(prompt).or(self.reports.engine_input);
    }

    fn expects_report(&self) -> bool {
        self.opening.takes_report()
            && self.reports.judgement.is_none()
            && settled_by_opening(&self.opening).is_none()
    }

    fn judge(&mut self, judgement: Judgement) -> Judgement {
        debug_assert!(judgement.is_consistent(), "contradictory judgement: {judgement:?}");
        debug_assert!(self.reports.judgement.is_none(), "judged twice: {judgement:?}");
        self.reports.judgement = Some(judgement);
        if let Some(sink) = &self.sink {
            sink.judged(&judgement);
            let last_block = judgement.delivery.map_or(Tokens::ZERO, |delivery| delivery.last_block);
            if !last_block.is_zero() {
                sink.undelivered(DeliveryReason::LastBlock, last_block);
            }
        }
        judgement
    }

    fn settle(&mut self, close: Close) -> Closed<S> {
        if self.opening.takes_report() && self.reports.judgement.is_none() {
            let outcome = self.outcome_without_report(close);
            self.judge(Judgement::without_report(outcome, &self.opening, self.reports.engine_input));
        }
        let closing = Closing {
            close,
            dispatched: self.dispatched,
            outcome: self.outcome(),
            reused: self.reused(),
            observation: self.observation(),
        };
        let pending = self.sink.take().and_then(|sink| {
            sink.closed(&closing);
            PendingDelivery::of(sink, self.open_loss())
        });
        Closed { closing, pending }
    }

    fn observation(&self) -> Option<HistoryObservation> {
        let observation =
            if self.is_taught { HistoryObservation::Complete } else { HistoryObservation::Incomplete };
        self.opening.history.map(|_| observation)
    }

    fn open_loss(&self) -> Tokens {
        let delivery = self.reports.judgement.and_then(|judgement| judgement.delivery);
        delivery.map_or(Tokens::ZERO, |delivery| delivery.open)
    }

    fn outcome_without_report(&self, close: Close) -> ReportOutcome {
        if let Some(outcome) = settled_by_opening(&self.opening) {
            return outcome;
        }
        if self.reports.mismatched {
            return ReportOutcome::Mismatched;
        }
        if self.reports.invalid {
            return ReportOutcome::Invalid;
        }
        match close {
            Close::Completed => ReportOutcome::Missing,
            Close::Failed | Close::Cancelled => ReportOutcome::Unfinished,
        }
    }
}

impl<S: FunnelSink> Drop for AttemptLedger<S> {
    fn drop(&mut self) {
        if self.sink.is_some() {
            drop(self.settle(Close::Cancelled));
        }
    }
}

#[cfg(test)]
mod tests;
