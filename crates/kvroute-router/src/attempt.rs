//! One dispatch of one request to one rank, closed exactly once.
//!
//! The attempt owns everything that must be given back: the booking, the ledger and the request's recorder. It is
//! held by whatever carries the request at the moment (the handler, then the response body), so that a client
//! that leaves at any point drops it, and dropping it gives everything back.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use kvroute_core::{AttemptId, Phase, TokenId, Tokens};
use kvroute_funnel::{AttemptLedger, Close, Closed, ReportOutcome};
use kvroute_metrics::{AttemptMetrics, LatencyPart, RequestOutcome, RequestRecorder};
use kvroute_openai::Observation;
use tokio::time::Instant;

use crate::access::AttemptRecord;
use crate::config::HistoryOutputs;
use crate::decisions::{DecisionId, ReportRecord};
use crate::error::RouteError;
use crate::history::Lesson;
use crate::identity::{Reported, Witness};
use crate::pool::Pool;
use crate::promise::Promise;
use crate::rank::Rank;
use crate::trail::{AttemptTrail, Trail};
use crate::worker::Pass;

/// The open books of one attempt.
#[derive(Debug)]
pub(crate) struct Attempt {
    pool: Arc<Pool>,
    rank: Arc<Rank>,
    /// What it may tell of its worker; `None` once it has.
    pass: Option<Pass>,
    phase: Phase,
    received: Instant,
    waited: Duration,
    promise: Promise,
    /// What the history learns of it; `None` where none was asked.
    lesson: Option<Lesson>,
    /// What it tells of its engine's tokens; `None` where there is nothing to compare.
    witness: Option<Witness>,
    /// Whether the HTTP client has it.
    is_sent: bool,
    engine_prompt: Option<u64>,
    output: Tokens,
    /// The engine's own count of the output.
    engine_output: Option<Tokens>,
    trail: AttemptTrail,
    /// `None` once they are closed.
    books: Option<Books>,
}

/// What must be given back or closed.
#[derive(Debug)]
struct Books {
    booking: Booked,
    ledger: AttemptLedger<AttemptMetrics>,
    /// `None` of a prefill beside a decode attempt that has it.
    recorder: Option<RequestRecorder>,
    /// Where its decision stands, if it was kept.
    decision: Option<DecisionId>,
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
    pub(crate) pass: Pass,
    pub(crate) id: AttemptId,
    pub(crate) phase: Phase,
    pub(crate) received: Instant,
    /// How long the request waited in the queue.
    pub(crate) waited: Duration,
    pub(crate) promise: Promise,
    pub(crate) lesson: Option<Lesson>,
    pub(crate) ledger: AttemptLedger<AttemptMetrics>,
    pub(crate) witness: Option<Witness>,
    pub(crate) recorder: Option<RequestRecorder>,
    pub(crate) decision: Option<DecisionId>,
    /// Why this rank.
    pub(crate) reason: &'static str,
    pub(crate) trail: Trail,
}

// === impl Attempt ===

impl Attempt {
    /// Takes over a booking, an open ledger and the request's recorder.
    pub(crate) fn new(params: AttemptParams) -> Self {
        let AttemptParams {
            pool,
            rank,
            pass,
            id,
            phase,
            received,
            waited,
            promise,
            lesson,
            ledger,
            witness,
            mut recorder,
            decision,
            reason,
            trail,
        } = params;
        let count = ledger.opening().count;
        if let Some(recorder) = &mut recorder {
            recorder.served_by(&rank.metrics, count.input());
        }
        let trail = trail.attempt(phase, || AttemptRecord {
            rank: rank.name.clone(),
            policy: pool.config().policy.clone(),
            reason,
            count,
            history: ledger.opening().history,
            reused: None,
            report: None,
        });
        let booking = Booked { pool: Arc::clone(&pool), rank: Arc::clone(&rank), id };
        let books = Some(Books { booking, ledger, recorder, decision });
        let (engine_prompt, engine_output, output) = (None, None, Tokens::ZERO);
        Self {
            pool,
            rank,
            pass: Some(pass),
            phase,
            received,
            waited,
            promise,
            lesson,
            witness,
            is_sent: false,
            engine_prompt,
            engine_output,
            output,
            trail,
            books,
        }
    }

    /// The rank that serves it.
    pub(crate) fn rank(&self) -> &Arc<Rank> {
        &self.rank
    }

    /// What it does of its request.
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The pool it belongs to.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Where its decision can be read, if it was kept.
    pub(crate) fn decision(&self) -> Option<DecisionId> {
        self.books.as_ref()?.decision
    }

    /// What its rank should reuse at the most: F3, but for the last token; `None` where no index was asked.
    pub(crate) fn predicted(&self) -> Option<Tokens> {
        let opening = self.books.as_ref()?.ledger.opening();
        Some(self.promise.predicted?.min(opening.ledger?.reusable))
    }

    /// The HTTP client gets the request now. Returns whether it had it before.
    pub(crate) fn hand_over(&mut self) -> bool {
        let is_first = self.books.as_ref().is_some_and(|books| !books.ledger.opening().is_repeat);
        if !self.is_sent && is_first {
            let time = self.received.elapsed().saturating_sub(self.waited);
            self.pool.metrics().added_latency().added(LatencyPart::BeforeDispatch, time);
        }
        std::mem::replace(&mut self.is_sent, true)
    }

    /// No connection was made, so the worker has nothing of it.
    pub(crate) fn take_back(&mut self) {
        self.is_sent = false;
    }

    /// The worker took the request, as its status says.
    pub(crate) fn taken(&mut self) {
        self.promise.taken();
    }

    /// Whether anybody here wants to know which tokens its engine generates.
    pub(crate) fn follows_token_ids(&self) -> bool {
        self.lesson.is_some() && self.pool.config().history.outputs != HistoryOutputs::Off
    }

    /// Takes what was seen in the response at once; `token_ids` came with it.
    pub(crate) fn observe(&mut self, seen: &[Observation], token_ids: &[TokenId]) {
        self.learn(seen, token_ids);
        for alike in seen.chunk_by(|one, next| one == next) {
            match &alike[0] {
                Observation::Content { choice } => self.content(*choice, alike.len() as u64),
                told => self.take(told),
            }
        }
    }

    /// Takes what is told of the whole answer.
    fn take(&mut self, told: &Observation) {
        let Some(books) = &mut self.books else { return };
        match told {
            Observation::Usage(counts) => {
                if let Some(completion) = counts.completion.map(Tokens::new) {
                    if let Some(recorder) = books.recorder.as_mut().filter(|_| self.phase != Phase::Prefill) {
                        recorder.completion_tokens(completion);
                    }
                    self.engine_output = Some(completion);
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
            Observation::Content { .. }
            | Observation::Generated { .. }
            | Observation::Finish { .. }
            | Observation::Error
            | Observation::Done => {}
        }
    }

    /// Hands on to the history what it is to learn of these.
    fn learn(&mut self, seen: &[Observation], token_ids: &[TokenId]) {
        let follows = self.follows_token_ids();
        let Some(lesson) = &mut self.lesson else { return };
        if self.phase == Phase::Prefill || self.books.is_none() {
            return;
        }
        // Ids may be read for another end than the history, which is not to learn of them where it follows none.
        let is_followed = |seen: &&Observation| follows || !matches!(seen, Observation::Generated { .. });
        for observation in seen.iter().filter(is_followed) {
            lesson.observe(observation, token_ids);
        }
    }

    /// Puts its place in the trace into the headers for its worker.
    pub(crate) fn propagate(&self, headers: &mut HeaderMap) {
        self.trail.propagate(headers);
    }

    /// Notes what it fails of, where its client is not told by a status.
    pub(crate) fn note_failure(&self, error: &RouteError) {
        self.trail.failed(error);
    }

    /// It fails, and that is its worker's fault, in words. An attempt that fails otherwise tells nothing of its worker.
    pub(crate) fn blame_worker(&mut self, cause: &str) {
        if let Some(pass) = self.pass.take() {
            pass.failed(cause);
        }
    }

    /// What it tells of its worker is for somebody else to say, who knows later what came of it.
    pub(crate) fn take_pass(&mut self) -> Option<Pass> {
        self.pass.take()
    }

    /// Closes the books.
    pub(crate) fn finish(mut self, close: Close) {
        self.settle(close, request_outcome(close));
    }

    /// Closes the books of an attempt that failed, but for those of its request: it may be sent elsewhere.
    pub(crate) fn fail(mut self) -> Option<RequestRecorder> {
        self.close(Close::Failed)
    }

    /// Closes the books of an attempt that did its part, but for those of its request: another one goes on with it.
    pub(crate) fn hand_on(mut self) -> Option<RequestRecorder> {
        self.close(Close::Completed)
    }

    /// Closes the books of an attempt whose part nobody needs any more, but for those of its request.
    pub(crate) fn give_up(mut self) -> Option<RequestRecorder> {
        self.close(Close::Cancelled)
    }

    /// F4, once its engine has told it.
    pub(crate) fn reported_reuse(&self) -> Option<Tokens> {
        self.books.as_ref()?.ledger.reused()
    }

    /// Lets another attempt of the request have its books.
    pub(crate) fn lend_recorder(&mut self) -> Option<RequestRecorder> {
        self.books.as_mut()?.recorder.take()
    }

    /// Takes the books of the request over from another attempt of it.
    pub(crate) fn borrow_recorder(&mut self, recorder: Option<RequestRecorder>) {
        if let Some(books) = &mut self.books {
            books.recorder = recorder;
        }
    }

    /// What the history learns of what is generated behind its prompt; to be asked before its books close.
    pub(crate) fn lesson(&self) -> Option<Lesson> {
        self.lesson.clone()
    }

    /// Closes the books of an attempt that its worker refused as the client's own fault.
    pub(crate) fn finish_refused(mut self) {
        self.settle(Close::Failed, RequestOutcome::Rejected);
    }

    /// So many chunks brought text for a choice.
    fn content(&mut self, choice: u32, chunks: u64) {
        let Some(books) = &mut self.books else { return };
        let since_headers = self.received.elapsed();
        if let Some(recorder) = books.recorder.as_mut().filter(|_| self.phase != Phase::Prefill) {
            recorder.chunks(choice, chunks, since_headers);
        }
        let (desk, id) = (self.pool.desk(), books.booking.id);
        if self.output.is_zero() {
            if let Some(pass) = &self.pass {
                pass.shows_life();
            }
            if self.phase != Phase::Prefill {
                self.trail.first_token(since_headers);
            }
            desk.first_token(id, &self.rank);
            self.pool.gate().wake();
        }
        let tokens = Tokens::new(chunks);
        desk.output(id, &self.rank, choice, tokens);
        let size = self.rank.block_size();
        let before = size.occupied_blocks(self.output);
        self.output += tokens;
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

    fn settle(&mut self, close: Close, outcome: RequestOutcome) {
        if let Some(recorder) = self.close(close) {
            recorder.finish(outcome);
            self.trail.ended(outcome);
        }
    }

    /// Closes everything but the request's recorder; `None` if that was done already.
    fn close(&mut self, close: Close) -> Option<RequestRecorder> {
        let Books { booking, mut ledger, recorder, decision } = self.books.take()?;
        // Before the booking goes, which lets others in.
        match self.pass.take() {
            Some(pass) if close == Close::Completed => pass.succeeded(),
            returned => drop(returned),
        }
        let span = self.trail.span().clone();
        let _entered = span.enter();
        let input = ledger.opening().count.input();
        drop(booking);
        if self.is_sent {
            ledger.dispatched();
        }
        if close == Close::Completed && self.teach() {
            ledger.taught();
        }
        let Closed { closing, pending } = ledger.close(close);
        if let Some(id) = decision {
            self.pool
                .decisions()
                .close(id, ReportRecord::of(&closing, self.engine_prompt, self.promise.predicted));
        }
        self.trail.closed(&closing, self.engine_output, self.output);
        if close == Close::Completed {
            self.promise.completed(closing.reused, self.is_computed(input, closing.reused));
        }
        self.promise.ended();
        if let Some(pending) = pending {
            self.promise.clone().explain(pending);
        }
        if let Some(witness) = self.witness.take() {
            let (prompt, predicted, reused) = (self.engine_prompt, self.promise.predicted, closing.reused);
            witness.closed(&self.pool, Reported { prompt, predicted, reused });
        }
        if closing.outcome == Some(ReportOutcome::Missing) {
            self.pool.warn_missing_report(&self.rank);
        }
        recorder
    }

    /// Returns whether anything was learned of the attempt's own prompt.
    fn teach(&mut self) -> bool {
        let Some(lesson) = self.lesson.take() else { return false };
        match self.phase {
            Phase::Aggregated => lesson.teach(),
            Phase::Prefill => {
                lesson.teach_prompts();
                true
            }
            Phase::Decode => {
                lesson.teach();
                false
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.settle(Close::Cancelled, RequestOutcome::Cancelled);
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
