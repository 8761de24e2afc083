//! One dispatch of one request to one rank, closed exactly once.
//!
//! The attempt owns everything that must be given back: the booking, the ledger and the request's recorder. It is
//! held by whatever carries the request at the moment (the handler, then the response body), so that a client
//! that leaves at any point drops it, and dropping it gives everything back.

use std::sync::Arc;

use kvroute_core::{AttemptId, Tokens};
use kvroute_funnel::{AttemptLedger, Close, ReportOutcome};
use kvroute_metrics::{AttemptMetrics, RequestOutcome, RequestRecorder};
use kvroute_openai::Observation;
use tokio::time::Instant;

use crate::pool::Pool;
use crate::worker::Rank;

/// The open books of one attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pool: Arc<Pool>,
    rank: Arc<Rank>,
    received: Instant,
    booking: Booked,
    ledger: AttemptLedger<AttemptMetrics>,
    recorder: RequestRecorder,
    engine_prompt: Option<u64>,
    prefill_done: bool,
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
    pub(crate) ledger: AttemptLedger<AttemptMetrics>,
    pub(crate) recorder: RequestRecorder,
}

// === impl Attempt ===

impl Attempt {
    /// Takes over a booking, an open ledger and the request's recorder.
    pub(crate) fn new(params: AttemptParams) -> Self {
        let AttemptParams { pool, rank, id, received, ledger, mut recorder } = params;
        recorder.served_by(&rank.metrics, ledger.opening().count.input());
        let booking = Booked { pool: Arc::clone(&pool), rank: Arc::clone(&rank), id };
        Self { pool, rank, received, booking, ledger, recorder, engine_prompt: None, prefill_done: false }
    }

    /// The rank that serves it.
    pub(crate) fn rank(&self) -> &Arc<Rank> {
        &self.rank
    }

    /// The pool it belongs to.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The worker has the request now.
    pub(crate) fn dispatched(&mut self) {
        self.ledger.dispatched();
    }

    /// Takes what was seen in the response.
    pub(crate) fn observe(&mut self, observation: &Observation) {
        match observation {
            Observation::Content { choice } => self.content(*choice),
            Observation::Usage(counts) => {
                if let Some(completion) = counts.completion {
                    self.recorder.completion_tokens(Tokens::new(completion));
                }
                if let Some(prompt) = counts.prompt {
                    self.engine_prompt = Some(prompt);
                    self.ledger.engine_counted(prompt);
                }
            }
            Observation::Report(report) => {
                self.engine_prompt = report.prompt.count().or(self.engine_prompt);
                self.ledger.report(report);
            }
            Observation::Finish { .. } | Observation::Error | Observation::Done => {}
        }
    }

    /// Closes the books.
    pub(crate) fn finish(self, close: Close) {
        let Self { pool, rank, booking, ledger, recorder, engine_prompt, .. } = self;
        let input = ledger.opening().count.input();
        drop(booking);
        let closing = ledger.close(close);
        recorder.finish(request_outcome(close));
        match closing.outcome {
            Some(ReportOutcome::Mismatched) => pool.warn_mismatch(&rank, input, engine_prompt),
            Some(ReportOutcome::Missing) => pool.warn_missing_report(&rank),
            _ => {}
        }
    }

    fn content(&mut self, choice: u32) {
        self.recorder.chunk(choice, self.received.elapsed());
        if !self.prefill_done {
            self.prefill_done = true;
            self.pool.desk().first_token(self.booking.id, &self.rank);
        }
        self.pool.desk().output(self.booking.id, &self.rank, choice, Tokens::new(1));
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
    }
}
