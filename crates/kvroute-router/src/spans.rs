//! The spans of a request: one for the client's request, below it one for each dispatch.
//!
//! Their level is debug, so that a log at its usual level does not pay for them; an exporter takes them by their target.
//! Ids are the router's own and not an exporter's, because a worker is told of them whether anything is exported or not.

use kvroute_core::{Phase, Tokens};
use kvroute_funnel::{Closing, ReportOutcome};
use tracing::field::Empty;
use tracing::{Span, debug_span};

use crate::access::{AccessRecord, AttemptRecord};
use crate::trace_context::{SpanId, TraceContext};

/// Target of all spans of requests, and of the events in them.
pub const SPANS: &str = "kvroute_router::spans";

/// Name of the span of a client's request.
pub const REQUEST: &str = "request";

/// Name of the span of one dispatch.
pub const ATTEMPT: &str = "attempt";

/// A client's request begins.
pub(crate) fn request(record: &AccessRecord) -> Span {
    let TraceContext { trace, span, parent, is_sampled } = record.trace;
    debug_span!(
        target: SPANS,
        parent: None,
        REQUEST,
        trace_id = %trace,
        span_id = %span,
        parent_id = parent.map(tracing::field::display),
        sampled = is_sampled,
        request_id = record.request_id.to_str().unwrap_or_default(),
        endpoint = record.endpoint.as_str(),
        model = Empty,
        stream = Empty,
        status = Empty,
        outcome = Empty,
        error = Empty,
        attempts = Empty,
    )
}

/// A client's request is over.
pub(crate) fn request_over(span: &Span, record: &AccessRecord) {
    span.record("model", record.model.as_deref());
    span.record("stream", record.stream);
    span.record("status", record.status.map(|status| status.as_u16()));
    span.record("error", record.error);
    span.record("attempts", record.attempts);
    span.record("outcome", record.outcome().as_str());
}

/// A dispatch begins, as `id`.
pub(crate) fn attempt(
    request: &Span,
    trace: &TraceContext,
    id: SpanId,
    phase: Phase,
    attempt: &AttemptRecord,
) -> Span {
    let cached = attempt.count.cached();
    debug_span!(
        target: SPANS,
        parent: request,
        ATTEMPT,
        trace_id = %trace.trace,
        span_id = %id,
        parent_id = %trace.span,
        sampled = trace.is_sampled,
        phase = phase.as_str(),
        worker = attempt.rank.worker.as_str(),
        dp_rank = attempt.rank.dp_rank.get(),
        policy = attempt.policy,
        reason = attempt.reason,
        input_tokens = attempt.count.input().map(Tokens::get),
        history_cached_tokens = attempt.history.map(Tokens::get),
        best_eligible_cached_tokens = cached.map(|cached| cached.best.get()),
        selected_cached_tokens = cached.map(|cached| cached.selected.get()),
        reused_tokens = Empty,
        report = Empty,
        output_tokens = Empty,
        outcome = Empty,
    )
}

/// The first token of a stream came.
pub(crate) fn first_token(attempt: &Span) {
    tracing::debug!(target: SPANS, parent: attempt, "first_token");
}

/// A dispatch is over.
pub(crate) fn attempt_over(span: &Span, closing: &Closing, output: Option<Tokens>) {
    span.record("reused_tokens", closing.reused.map(Tokens::get));
    span.record("report", closing.outcome.map(ReportOutcome::as_str));
    span.record("output_tokens", output.map(Tokens::get));
    span.record("outcome", closing.close.as_str());
}
