//! The state of one stream: what was promised, what has come, how it ended.

use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use kvroute_funnel::Close;
use kvroute_metrics::{AddedLatency, LatencyPart, MigrationReason};
use kvroute_openai::{Endpoint, Observation, StreamScanner};
use tokio::time::Instant;

use super::Streams;
use super::elsewhere::{Elsewhere, Next};
use super::idle::IdleLimit;
use crate::attempt::Attempt;
use crate::config::Timeouts;
use crate::dispatch::{Streamed, tells_own_fault};
use crate::error::{ErrorKind, RouteError, error_text};
use crate::migration::{BrokenStream, Continuation, Migration};
use crate::rank::Rank;
use crate::trail::Trail;

/// One stream between its workers and its client.
#[derive(Debug)]
pub(super) struct Flow {
    source: Source,
    scanner: StreamScanner,
    endpoint: Endpoint,
    timeouts: Timeouts,
    streams: Streams,
    trail: Trail,
    latency: AddedLatency,
    /// When the total limit of the present attempt runs out.
    deadline: Instant,
    /// What it takes to go on with another worker; `None` where that is not done.
    migration: Option<Migration>,
    /// `None` once the books are closed.
    attempt: Option<Attempt>,
    observations: Vec<Observation>,
    end: StreamEnd,
    /// Whether the stream's own id was noted.
    is_named: bool,
    idle: IdleLimit,
    /// Whether an error that its engine told is held against the worker.
    is_own_fault: bool,
    /// Whether its client may read the names of workers.
    explains: bool,
    /// The last thing that the client gets, where it was not polled for.
    parting: Option<Bytes>,
    waker: Option<Waker>,
}

/// Where the next bytes come from.
#[derive(Debug)]
enum Source {
    Worker(Streamed),
    /// Another worker is asked for them.
    Elsewhere(Box<Elsewhere>),
    /// Nothing more is read.
    Over,
}

/// What the stream has said about its own end so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Unsaid,
    Finished,
    EngineError,
}

// === impl Flow ===

impl Flow {
    /// A stream of which the head has come.
    pub(super) fn new(
        upstream: Streamed,
        scanner: StreamScanner,
        endpoint: Endpoint,
        attempt: Attempt,
        deadline: Instant,
        trail: Trail,
    ) -> Self {
        let timeouts = attempt.pool().timeouts();
        Self {
            source: Source::Worker(upstream),
            scanner,
            endpoint,
            timeouts,
            streams: attempt.pool().streams().clone(),
            trail,
            latency: attempt.pool().metrics().added_latency().clone(),
            deadline,
            migration: None,
            attempt: Some(attempt),
            observations: Vec::new(),
            end: StreamEnd::Unsaid,
            is_named: false,
            idle: IdleLimit::new(&timeouts, deadline),
            is_own_fault: false,
            explains: false,
            parting: None,
            waker: None,
        }
    }

    /// The same stream, which goes on with another worker if it breaks.
    pub(super) fn migrating(self, migration: Option<Migration>) -> Self {
        let Some(migration) = migration else { return self };
        let scanner = self.scanner.keeping(migration.nothing_delivered());
        Self { scanner, migration: Some(migration), ..self }
    }

    /// The same for a client that may read the names of workers in errors, or one that may not.
    pub(super) fn explaining(self, explains: bool) -> Self {
        Self { explains, ..self }
    }

    /// True once nothing more comes.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.source, Source::Over) && self.parting.is_none()
    }

    /// When its total limit runs out; later once it has gone on with another worker.
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The next bytes for the client.
    pub(super) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let polled = match &mut self.source {
                Source::Over => return Poll::Ready(self.parting.take()),
                Source::Elsewhere(elsewhere) => elsewhere.poll(context).map(|next| self.adopt(next)),
                Source::Worker(upstream) => {
                    let piece = upstream.poll_piece(context);
                    self.poll_arrived(piece, context)
                }
            };
            match polled {
                Poll::Ready(forward) if forward.is_empty() => {}
                Poll::Ready(forward) => return Poll::Ready(Some(forward)),
                Poll::Pending => {
                    self.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_arrived(
        &mut self,
        piece: Poll<Option<Result<Bytes, hyper::Error>>>,
        context: &mut Context<'_>,
    ) -> Poll<Bytes> {
        Poll::Ready(match piece {
            Poll::Ready(Some(Ok(piece))) => self.passed(&piece),
            Poll::Ready(Some(Err(error))) => self.broke(MigrationReason::Broken, error_text(&error)),
            Poll::Ready(None) => self.ended(),
            Poll::Pending => {
                let (limit, after) = ready!(self.idle.poll_exceeded(context));
                let kind = |worker| ErrorKind::Timeout { worker, limit, after };
                self.go_on_or_fail(MigrationReason::Stalled, kind)
            }
        })
    }

    /// A deadline has come, whether anybody reads or not. Returns whether nothing more is to be watched.
    pub(super) fn exceed_total(&mut self) -> bool {
        self.look_elsewhere();
        let now = Instant::now();
        if let Source::Elsewhere(_) = self.source {
            self.deadline = now + self.timeouts.total; // Who is asked has limits of its own.
        }
        if self.deadline > now {
            return false;
        }
        let after = self.timeouts.total;
        self.part(|worker| ErrorKind::Timeout { worker, limit: "total", after });
        true
    }

    /// The router stops before the stream has ended.
    pub(super) fn cut(&mut self) {
        self.look_elsewhere();
        if !matches!(self.source, Source::Elsewhere(_)) {
            self.part(|_| ErrorKind::Stopping);
            return;
        }
        if let Source::Elsewhere(elsewhere) = std::mem::replace(&mut self.source, Source::Over) {
            elsewhere.leave();
        }
        let event = self.nobody_goes_on(&RouteError::router(ErrorKind::Stopping));
        self.part_with(event);
    }

    fn part(&mut self, kind: impl FnOnce(String) -> ErrorKind) {
        if matches!(self.source, Source::Over) {
            return;
        }
        let event = self.fail(kind, None);
        self.part_with(event);
    }

    /// These are the last bytes that the client gets.
    fn part_with(&mut self, event: Bytes) {
        self.parting = (!event.is_empty()).then_some(event);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn passed(&mut self, piece: &Bytes) -> Bytes {
        let arrived = self.idle.piece_came();
        let forward = self.scanner.push(piece, &mut self.observations);
        self.note_response();
        self.take_observations(piece);
        self.latency.added(LatencyPart::PerChunk, arrived.elapsed());
        if !self.scanner.has_died() {
            return forward;
        }
        let behind = self.broke(MigrationReason::Broken, "its engine has died".to_owned());
        Bytes::from([forward, behind].concat())
    }

    fn ended(&mut self) -> Bytes {
        let rest = self.scanner.finish(&mut self.observations);
        self.take_observations(&rest);
        if self.end == StreamEnd::Unsaid {
            let cause = "the stream ended without its last event".to_owned();
            return self.broke(MigrationReason::EndedEarly, cause);
        }
        self.source = Source::Over;
        self.close();
        rest
    }

    fn broke(&mut self, reason: MigrationReason, cause: String) -> Bytes {
        self.go_on_or_fail(reason, |worker| ErrorKind::UpstreamBrokeMidStream { worker, cause })
    }

    /// Another worker is asked to go on; where that is not possible, the client is told so.
    fn go_on_or_fail(&mut self, reason: MigrationReason, kind: impl FnOnce(String) -> ErrorKind) -> Bytes {
        let broke = kind(
            self.attempt.as_ref().map_or_else(String::new, |attempt| attempt.rank().name.worker.to_string()),
        );
        if let Some(attempt) = &mut self.attempt {
            attempt.blame_worker(&broke.to_string());
        }
        let kind = |_| broke;
        let delivered = self.scanner.delivered();
        let refusal = self.migration.as_ref().zip(delivered).map(|(migration, has)| migration.refusal(has));
        match refusal {
            Some(None) => self.go_on(reason, kind),
            Some(Some(refusal)) => self.fail(kind, Some(refusal)),
            None => self.fail(kind, None),
        }
    }

    fn go_on(&mut self, reason: MigrationReason, kind: impl FnOnce(String) -> ErrorKind) -> Bytes {
        self.source = Source::Over;
        let Some(attempt) = self.attempt.take() else { return Bytes::new() };
        let rank = Arc::clone(attempt.rank());
        let broken = broken(&rank, kind);
        tracing::warn!(worker = %rank.name, error = %broken, "stream broke, another worker is asked to go on");
        rank.worker.doubt.notify_one();
        let (separator, delivered) = self.scanner.suspend();
        let worker = rank.name.worker.clone();
        if let (Some(migration), Some(delivered), Some(recorder)) =
            (self.migration.take(), delivered, attempt.fail())
        {
            let stream = BrokenStream { reason, worker, recorder, delivered };
            let elsewhere = Elsewhere::ask(migration, stream, broken, &self.streams);
            self.source = Source::Elsewhere(Box::new(elsewhere));
        }
        separator
    }

    /// What comes of it that another worker was asked.
    fn adopt(&mut self, next: Next) -> Bytes {
        let Source::Elsewhere(elsewhere) = std::mem::replace(&mut self.source, Source::Over) else {
            return Bytes::new();
        };
        match next {
            Ok(continuation) => self.take_over(*continuation),
            Err(_) if self.streams.cut.is_cancelled() => {
                return self.nobody_goes_on(&RouteError::router(ErrorKind::Stopping));
            }
            Err(reason) => return self.nobody_goes_on(&elsewhere.broken.not_continued(reason)),
        }
        Bytes::new()
    }

    fn take_over(&mut self, continuation: Continuation) {
        let Continuation { upstream, scanner, attempt, deadline, migration } = continuation;
        tracing::info!(worker = %attempt.rank().name, "another worker goes on with a broken stream");
        (self.source, self.scanner, self.deadline) = (Source::Worker(upstream), scanner, deadline);
        (self.attempt, self.migration) = (Some(attempt), Some(migration));
        (self.end, self.is_own_fault) = (StreamEnd::Unsaid, false);
        self.idle = IdleLimit::new(&self.timeouts, self.deadline);
    }

    fn nobody_goes_on(&mut self, error: &RouteError) -> Bytes {
        tracing::warn!(%error, "stream broke and nobody goes on");
        self.trail.failed(error);
        self.scanner.break_off(&error.body_for(self.explains), self.endpoint)
    }

    /// Takes what has come of another worker, where nobody polls.
    fn look_elsewhere(&mut self) {
        let Source::Elsewhere(elsewhere) = &mut self.source else { return };
        let Some(next) = elsewhere.take() else { return };
        let event = self.adopt(next);
        match self.source {
            Source::Over => self.part_with(event),
            _ => drop(self.waker.take().map(Waker::wake)),
        }
    }

    /// The client cannot be told by a status any more, so it is told by an event. Behind `[DONE]` there is
    /// nothing to tell: it has everything.
    fn fail(&mut self, kind: impl FnOnce(String) -> ErrorKind, refusal: Option<String>) -> Bytes {
        self.source = Source::Over;
        let Some(attempt) = self.attempt.take() else { return Bytes::new() };
        let rank = attempt.rank();
        let error = broken(rank, kind);
        let error = match refusal {
            Some(refusal) => error.not_continued(refusal.into()),
            None => error,
        };
        tracing::warn!(worker = %rank.name, %error, "stream broke");
        rank.worker.doubt.notify_one();
        attempt.note_failure(&error);
        attempt.finish(Close::Failed);
        self.scanner.break_off(&error.body_for(self.explains), self.endpoint)
    }

    fn close(&mut self) {
        let Some(mut attempt) = self.attempt.take() else { return };
        if self.is_own_fault {
            attempt.blame_worker("its stream ended with an error");
        }
        match self.end {
            StreamEnd::EngineError => attempt.finish(Close::Failed),
            StreamEnd::Finished | StreamEnd::Unsaid => attempt.finish(Close::Completed),
        }
    }

    /// The response that this stream is may be continued by another request.
    fn note_response(&mut self) {
        if self.is_named {
            return;
        }
        if let (Some(id), Some(attempt)) = (self.scanner.response_id(), &self.attempt) {
            attempt.rank().made_response(id);
            self.is_named = true;
        }
    }

    /// Takes what was seen in these bytes.
    fn take_observations(&mut self, seen_in: &[u8]) {
        let mut is_done = false;
        for observation in &self.observations {
            match observation {
                Observation::Error => {
                    self.end = StreamEnd::EngineError;
                    self.is_own_fault |= tells_own_fault(seen_in);
                }
                Observation::Finish { .. } | Observation::Done if self.end == StreamEnd::Unsaid => {
                    self.end = StreamEnd::Finished;
                }
                _ => {}
            }
            is_done |= *observation == Observation::Done;
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.observe(&self.observations, self.scanner.token_ids());
        }
        self.observations.clear();
        if is_done {
            self.close();
        }
    }
}

fn broken(rank: &Rank, kind: impl FnOnce(String) -> ErrorKind) -> RouteError {
    match kind(rank.name.worker.to_string()) {
        ErrorKind::Stopping => RouteError::router(ErrorKind::Stopping),
        kind => RouteError::worker(rank.name.clone(), kind),
    }
}
