//! The access line: one entry of the log for each request that is over, however it ended.
//!
//! What is absent is left out and never 0: a request without a worker has no cached prefix, which is another thing than
//! a cached prefix of nothing. What a client chose itself is bounded, and that it cannot break a line is for whoever
//! writes the log to see to.

use std::time::Duration;

use http::{HeaderValue, StatusCode};
use kvroute_core::{Phase, Tokens, WorkerRank};
use kvroute_funnel::Count;
use kvroute_metrics::{Endpoint, RequestOutcome};
use tokio::time::Instant;

use crate::trace_context::TraceContext;

/// Target of the lines in the log: `kvroute::access=off` in a filter leaves them out.
pub const ACCESS: &str = "kvroute::access";

/// Longest name of a model that is written down, in bytes; clients may ask for any.
const LONGEST_MODEL: usize = 128;

/// What is known of a request.
#[derive(Debug)]
pub(crate) struct AccessRecord {
    pub(crate) request_id: HeaderValue,
    pub(crate) trace: TraceContext,
    pub(crate) endpoint: Endpoint,
    /// When its headers had come.
    pub(crate) received: Instant,
    /// The pool's, or what the client asked for as long as there is none.
    pub(crate) model: Option<String>,
    pub(crate) stream: Option<bool>,
    /// What its client was answered; `None` if it left before.
    pub(crate) status: Option<StatusCode>,
    pub(crate) outcome: Option<RequestOutcome>,
    /// Code of the router's own error.
    pub(crate) error: Option<&'static str>,
    pub(crate) attempts: u32,
    /// The last one that the client's answer comes of.
    pub(crate) attempt: Option<AttemptRecord>,
    /// The last one that computed the prompt for it; `None` where that is the same one.
    pub(crate) prefill: Option<AttemptRecord>,
    /// How long it had to wait for its turn, or for the first worker; `None` if it never had to.
    pub(crate) queued: Option<Duration>,
    /// Since its headers had come; `None` where the answer is no stream.
    pub(crate) first_token: Option<Duration>,
    pub(crate) output: Option<Tokens>,
    /// What of its answer came of workers whose stream broke.
    pub(crate) output_before: Tokens,
}

/// What is known of one dispatch.
#[derive(Debug)]
pub(crate) struct AttemptRecord {
    pub(crate) rank: WorkerRank,
    pub(crate) policy: String,
    /// Why this rank.
    pub(crate) reason: &'static str,
    /// F0, A, F2 and F3.
    pub(crate) count: Count,
    /// F1; `None` where no history was asked.
    pub(crate) history: Option<Tokens>,
    /// F4, where it is counted.
    pub(crate) reused: Option<Tokens>,
    /// What the engine's report was worth.
    pub(crate) report: Option<&'static str>,
}

// === impl AccessRecord ===

impl AccessRecord {
    /// A request whose headers have come.
    pub(crate) const fn new(
        request_id: HeaderValue,
        trace: TraceContext,
        endpoint: Endpoint,
        received: Instant,
    ) -> Self {
        Self {
            request_id,
            trace,
            endpoint,
            received,
            model: None,
            stream: None,
            status: None,
            outcome: None,
            error: None,
            attempts: 0,
            attempt: None,
            prefill: None,
            queued: None,
            first_token: None,
            output: None,
            output_before: Tokens::ZERO,
        }
    }

    /// Whoever was refused was rejected, unless it had a worker; whoever was never answered has left.
    pub(crate) fn outcome(&self) -> RequestOutcome {
        match (self.outcome, self.error) {
            (Some(outcome), _) => outcome,
            (None, Some(_)) => RequestOutcome::Rejected,
            (None, None) => RequestOutcome::Cancelled,
        }
    }

    /// One more worker gets it.
    pub(crate) fn begins(&mut self, phase: Phase, attempt: AttemptRecord) {
        self.attempts += 1;
        if phase == Phase::Prefill {
            self.prefill = Some(attempt);
            return;
        }
        self.attempt = Some(attempt);
        if phase == Phase::Aggregated {
            self.prefill = None; // Of no use to a worker that computes the prompt itself.
        }
    }

    /// What is known of the last attempt of a phase.
    pub(crate) const fn of_phase(&mut self, phase: Phase) -> Option<&mut AttemptRecord> {
        match phase {
            Phase::Prefill => self.prefill.as_mut(),
            Phase::Aggregated | Phase::Decode => self.attempt.as_mut(),
        }
    }

    /// Writes the line. Where another worker computed the prompt, what was known and reused of it is told of that one.
    pub(crate) fn write(&self) {
        let worker = self.attempt.as_ref().or(self.prefill.as_ref());
        let attempt = self.prefill.as_ref().or(self.attempt.as_ref());
        let count = attempt.map(|attempt| attempt.count);
        let cached = count.and_then(Count::cached);
        tracing::info!(
            target: ACCESS,
            parent: None,
            request_id = self.request_id.to_str().unwrap_or_default(),
            trace_id = %self.trace.trace,
            endpoint = self.endpoint.as_str(),
            model = self.model.as_deref(),
            stream = self.stream,
            status = self.status.map(|status| status.as_u16()),
            outcome = self.outcome().as_str(),
            error = self.error,
            attempts = self.attempts,
            worker = worker.map(|worker| worker.rank.worker.as_str()),
            dp_rank = worker.map(|worker| worker.rank.dp_rank.get()),
            prefill_worker = self.prefill.as_ref().map(|prefill| prefill.rank.worker.as_str()),
            prefill_dp_rank = self.prefill.as_ref().map(|prefill| prefill.rank.dp_rank.get()),
            policy = attempt.map(|attempt| attempt.policy.as_str()),
            reason = attempt.map(|attempt| attempt.reason),
            input_tokens = count.and_then(Count::input).map(Tokens::get),
            history_cached_tokens = attempt.and_then(|attempt| attempt.history).map(Tokens::get),
            best_cached_tokens = cached.map(|cached| cached.anywhere.get()),
            best_eligible_cached_tokens = cached.map(|cached| cached.best.get()),
            selected_cached_tokens = cached.map(|cached| cached.selected.get()),
            reused_tokens = attempt.and_then(|attempt| attempt.reused).map(Tokens::get),
            report = attempt.and_then(|attempt| attempt.report),
            output_tokens = self.output.map(Tokens::get),
            queue_seconds = self.queued.map(seconds),
            ttft_seconds = self.first_token.map(seconds),
            seconds = seconds(self.received.elapsed()),
            "request",
        );
    }
}

/// To the microsecond: more digits would only be noise.
fn seconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e6
}

/// A model's name as far as it is written down.
pub(crate) fn model_name(asked: &str) -> String {
    match asked.len() {
        0..=LONGEST_MODEL => asked.to_owned(),
        _ => format!("{}…", &asked[..asked.floor_char_boundary(LONGEST_MODEL)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_length_is_cut_between_characters() {
        assert_eq!(model_name(""), "");
        assert_eq!(model_name(&"m".repeat(128)), "m".repeat(128));
        assert_eq!(model_name(&"m".repeat(129)), format!("{}…", "m".repeat(128)));
        assert_eq!(model_name(&"é".repeat(65)), format!("{}…", "é".repeat(64)));
        assert_eq!(model_name(&format!("m{}", "é".repeat(64))), format!("m{}…", "é".repeat(63)));
    }
}
