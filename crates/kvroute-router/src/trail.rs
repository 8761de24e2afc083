//! What a request leaves behind for those who watch: its place in a trace, its spans, and its line in the log.
//!
//! A trail goes along with whatever carries the request, and the story that it gathers is told when the last of its
//! holders is gone: so it is told once, whether the request ends in its handler, in the body of its answer, or because
//! its client left in between. Where nobody listens there is no story, and a trail is little more than two ids.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use kvroute_core::{Phase, Tokens};
use kvroute_funnel::{Closing, ReportOutcome};
use kvroute_metrics::{Endpoint, RequestOutcome};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{Level, Span};

use crate::access::{ACCESS, AccessRecord, AttemptRecord, model_name};
use crate::error::{ErrorKind, RouteError};
use crate::spans;
use crate::trace_context::{SpanId, TraceContext};

/// What is told of one request.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    trace: TraceContext,
    /// `None` where nobody listens.
    story: Option<Arc<Story>>,
}

/// What is told of one of its dispatches.
#[derive(Debug)]
pub(crate) struct AttemptTrail {
    trail: Trail,
    phase: Phase,
    id: SpanId,
    span: Span,
}

/// Told when it is dropped.
#[derive(Debug)]
struct Story {
    span: Span,
    record: Mutex<AccessRecord>,
}

/// Notes how long something took, even if it is dropped before its end.
struct Wait<'a> {
    trail: &'a Trail,
    since: Option<Instant>,
}

// === impl Trail ===

impl Trail {
    /// The trail of a request whose headers have come.
    pub(crate) fn begin(
        trace: TraceContext,
        request_id: &HeaderValue,
        endpoint: Endpoint,
        received: Instant,
    ) -> Self {
        let is_span_wanted = tracing::span_enabled!(target: spans::SPANS, Level::DEBUG);
        if !is_span_wanted && !tracing::event_enabled!(target: ACCESS, Level::INFO) {
            return Self { trace, story: None };
        }
        let record = AccessRecord::new(request_id.clone(), trace, endpoint, received);
        let span = spans::request(&record);
        Self { trace, story: Some(Arc::new(Story { span, record: Mutex::new(record) })) }
    }

    /// The span of the request.
    pub(crate) fn span(&self) -> Span {
        self.story.as_ref().map_or_else(Span::none, |story| story.span.clone())
    }

    /// What it asks for.
    pub(crate) fn asks(&self, model: Option<&str>, stream: bool) {
        self.note(|record| {
            record.model = model.map(model_name);
            record.stream = Some(stream);
        });
    }

    /// A pool has it.
    pub(crate) fn belongs_to(&self, model: &str) {
        self.note(|record| record.model = Some(model.to_owned()));
    }

    /// Takes a step in which it may have to wait, and notes how long it did.
    pub(crate) async fn waits<T>(&self, step: impl Future<Output = T>) -> T {
        let mut step = pin!(step);
        let mut wait = Wait { trail: self, since: None };
        poll_fn(|context| {
            let polled = step.as_mut().poll(context);
            if polled.is_pending() {
                wait.begin();
            }
            polled
        })
        .await
    }

    /// Its client gets this answer.
    pub(crate) fn answered(&self, status: StatusCode) {
        self.note(|record| record.status = Some(status));
    }

    /// Its client gets an error instead of an answer, unless it has left.
    pub(crate) fn refused(&self, error: &RouteError) {
        let has_left = matches!(error.kind(), ErrorKind::BodyBroken(_));
        self.note(|record| {
            record.error = Some(error.kind().code());
            match has_left {
                true => record.outcome = Some(RequestOutcome::Cancelled),
                false => record.status = Some(error.status()),
            }
        });
    }

    /// It is over.
    pub(crate) fn ended(&self, outcome: RequestOutcome) {
        self.note(|record| record.outcome = Some(outcome));
    }

    /// Its stream failed for this reason.
    pub(crate) fn failed(&self, error: &RouteError) {
        self.note(|record| record.error = Some(error.kind().code()));
    }

    /// The next part of its stream comes behind so many tokens of its answer.
    pub(crate) fn continues(&self, tokens: Tokens) {
        self.note(|record| record.output_before = tokens);
    }

    /// It was for nothing that is served.
    pub(crate) fn unmatched(&self, status: StatusCode, code: &'static str) {
        self.note(|record| {
            record.error = Some(code);
            record.status = Some(status);
        });
    }

    /// A worker gets it now.
    pub(crate) fn attempt(self, phase: Phase, attempt: impl FnOnce() -> AttemptRecord) -> AttemptTrail {
        let id = SpanId::random();
        let span = match &self.story {
            None => Span::none(),
            Some(story) => {
                let attempt = attempt();
                let span = spans::attempt(&story.span, &self.trace, id, phase, &attempt);
                story.record.lock().begins(phase, attempt);
                span
            }
        };
        AttemptTrail { trail: self, phase, id, span }
    }

    fn note(&self, note: impl FnOnce(&mut AccessRecord)) {
        if let Some(story) = &self.story {
            note(&mut story.record.lock());
        }
    }

    fn waited(&self, time: Duration) {
        self.note(|record| *record.queued.get_or_insert_default() += time);
    }
}

// === impl AttemptTrail ===

impl AttemptTrail {
    /// The span of the dispatch.
    pub(crate) const fn span(&self) -> &Span {
        &self.span
    }

    /// Puts the dispatch's own place in the trace into the headers for its worker.
    pub(crate) fn propagate(&self, headers: &mut HeaderMap) {
        self.trail.trace.propagate(self.id, headers);
    }

    /// The first token of a stream came, so long after the request's headers.
    pub(crate) fn first_token(&self, since_headers: Duration) {
        spans::first_token(&self.span);
        self.trail.note(|record| {
            if record.stream == Some(true) {
                record.first_token.get_or_insert(since_headers);
            }
        });
    }

    /// It failed for this reason.
    pub(crate) fn failed(&self, error: &RouteError) {
        self.trail.note(|record| record.error = Some(error.kind().code()));
    }

    /// It is over. Its answer had so many tokens as the engine counted, or as many as the pieces of a stream; those of a
    /// prefill are none of the answer.
    pub(crate) fn closed(&self, closing: &Closing, counted: Option<Tokens>, pieces: Tokens) {
        self.trail.note(|record| {
            let has_pieces = record.stream == Some(true) && !pieces.is_zero();
            let output = counted.or_else(|| has_pieces.then_some(pieces));
            if self.phase != Phase::Prefill {
                record.output = output.map(|output| record.output_before + output);
            }
            spans::attempt_over(&self.span, closing, output);
            if let Some(attempt) = record.of_phase(self.phase) {
                attempt.reused = closing.reused;
                attempt.report = closing.outcome.map(ReportOutcome::as_str);
            }
        });
    }

    /// The request is over with it.
    pub(crate) fn ended(&self, outcome: RequestOutcome) {
        self.trail.ended(outcome);
    }
}

// === impl Story ===

impl Drop for Story {
    fn drop(&mut self) {
        let record = self.record.get_mut();
        spans::request_over(&self.span, record);
        record.write();
    }
}

// === impl Wait ===

impl Wait<'_> {
    fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.trail.waited(since.elapsed());
        }
    }
}

#[cfg(test)]
mod tests;
