//! One dispatch of one request to one rank, closed exactly once.
//!
//! The attempt owns everything that must be given back: the booking, the ledger and the request's recorder. It is
//! held by whatever carries the request at the moment (the handler, then the response body), so that a client
//! that leaves at any point drops it, and dropping it gives everything back.

use std::sync::Arc;

use kvroute_core::{AttemptId, Tokens};
use kvroute_funnel::{AttemptLedger, Close, Closed, ReportOutcome};
use kvroute_metrics::{AttemptMetrics, RequestOutcome, RequestRecorder};
use kvroute_openai::Observation;
use tokio::time::Instant;

use crate::decisions::ReportRecord;
use crate::pool::Pool;
use crate::promise::Promise;
use crate::rank::Rank;

/// The open books of one attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pool: Arc<Pool>,
    rank: Arc<Rank>,
    received: Instant,
    promise: Promise,
    engine_prompt: Option<u64>,
    output: Tokens,
    /// `None` once they are closed.
    books: Option<Books>,
}

/// What must be given back or closed.
#[derive(Debug)]
struct Books {
    booking: Booked,
    ledger: AttemptLedger<AttemptMetrics>,
    recorder: RequestRecorder,
    /// Where its decision stands, if it was kept.
    decision: Option<String>,
}

/// The booking, released when it is dropped.
#[derive(Debug)]
struct Booked {
    pool: Arc<Pool>,
    rank: Arc<Rank>,
    id: AttemptId,
}

/// What an attempt is made of.
pub(crate) struct AttemptParams {
    pub(crate) pool: Arc<Pool>,
    pub(crate) rank: Arc<Rank>,
    pub(crate) id: AttemptId,
    pub(crate) received: Instant,
    pub(crate) promise: Promise,
    pub(crate) ledger: AttemptLedger<AttemptMetrics>,
    pub(crate) recorder: RequestRecorder,
    pub(crate) decision: Option<String>,
}

// === impl Attempt ===

impl Attempt {
    /// Takes over a booking, an open ledger and the request's recorder.
    pub(crate) fn new(params: AttemptParams) -> Self {
        let AttemptParams { pool, rank, id, received, promise, ledger, mut recorder, decision } = params;
        recorder.served_by(&rank.metrics, ledger.opening().count.input());
        let booking = Booked { pool: Arc::clone(&pool), rank: Arc::clone(&rank), id };
        let books = Some(Books { booking, ledger, recorder, decision });
        Self { pool, rank, received, promise, engine_prompt: None, output: Tokens::ZERO, books }
    }

    /// The rank that serves it.
    pub(crate) fn rank(&self) -> &Arc<Rank> {
        &self.rank
    }

    /// The pool it belongs to.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Where its decision can be read, if it was kept.
    pub(crate) fn decision(&self) -> Option<&str> {
        self.books.as_ref()?.decision.as_deref()
    }

    /// What its rank should reuse at the most: F3, but for the last token; `None` where no index was asked.
    pub(crate) fn predicted(&self) -> Option<Tokens> {
        let opening = self.books.as_ref()?.ledger.opening();
        Some(self.promise.predicted?.min(opening.delivery?.reusable))
    }

    /// The worker has the request now; whether it took it shows in its status.
    pub(crate) fn dispatched(&mut self, is_taken: bool) {
        let Some(books) = &mut self.books else { return };
        books.ledger.dispatched();
        if is_taken {
            self.promise.taken();
        }
    }

    /// Takes what was seen in the response.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        let Some(books) = &mut self.books else { return };
        match observation {
            Observation::Content { choice } => self.content(*choice),
            Observation::Usage(counts) => {
                if let Some(completion) = counts.completion {
                    books.recorder.completion_tokens(Tokens::new(completion));
                }
                if let Some(prompt) = counts.prompt {
                    self.engine_prompt = Some(prompt);
                    books.ledger.engine_counted(prompt);
                }
            }
            Observation::Report(report) => {
                self.engine_prompt = report.prompt.count().or(self.engine_prompt);
                let judgement = books.ledger.report(report);
                if let Some(delivery) = judgement.and_then(|judgement| judgement.delivery) {
                    self.promise.answered(&delivery);
                }
            }
            Observation::Finish { .. } | Observation::Error | Observation::Done => {}
        }
    }

    /// Closes the books.
    pub(crate) fn finish(mut self, close: Close) {
        self.settle(close);
    }

    fn content(&mut self, choice: u32) {
        let Some(books) = &mut self.books else { return };
        books.recorder.chunk(choice, self.received.elapsed());
        let (desk, id) = (self.pool.desk(), books.booking.id);
        if self.output.is_zero() {
            desk.first_token(id, &self.rank);
            self.pool.gate().wake();
        }
        desk.output(id, &self.rank, choice, Tokens::new(1));
        let size = self.rank.block_size();
        let before = size.occupied_blocks(self.output);
        self.output += Tokens::new(1);
        let output = size.occupied_blocks(self.output);
        if output > before {
            self.promise.grew(output);
        }
    }

    /// Whether the answer shows that the engine computed this very prompt.
    fn is_computed(&self, input: Option<Tokens>, reused: Option<Tokens>) -> bool {
        match self.engine_prompt.map(Tokens::new) {
            Some(counted) => Some(counted) == input,
            None => reused.is_some() || !self.output.is_zero(),
        }
    }

    fn settle(&mut self, close: Close) {
        let Some(Books { booking, ledger, recorder, decision }) = self.books.take() else { return };
        let input = ledger.opening().count.input();
        drop(booking);
        let Closed { closing, pending } = ledger.close(close);
        if let Some(id) = decision {
            self.pool
                .decisions()
                .close(&id, ReportRecord::of(&closing, self.engine_prompt, self.promise.predicted));
        }
        recorder.finish(request_outcome(close));
        if close == Close::Completed {
            self.promise.completed(closing.reused, self.is_computed(input, closing.reused));
        }
        self.promise.ended();
        if let Some(pending) = pending {
            self.promise.clone().explain(pending);
        }
        match closing.outcome {
            Some(ReportOutcome::Mismatched) => self.pool.warn_mismatch(&self.rank, input, self.engine_prompt),
            Some(ReportOutcome::Missing) => self.pool.warn_missing_report(&self.rank),
            _ => {}
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.settle(Close::Cancelled);
    }
}

const fn request_outcome(close: Close) -> RequestOutcome {
    match close {
        Close::Completed => RequestOutcome::Completed,
        Close::Failed => RequestOutcome::Failed,
        Close::Cancelled => RequestOutcome::Cancelled,
    }
}

// === impl Booked ===

impl Drop for Booked {
    fn drop(&mut self) {
        self.pool.desk().release(self.id, &self.rank);
        self.pool.gate().wake();
    }
}
