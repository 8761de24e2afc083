//! The life of one client request as its client saw it: first token, pace, length and ending.
//!
//! Time comes in as the duration since the request's headers were received; no clock is read here. What is
//! known only at the end (how many tokens a choice had) is recorded at the end, once, whichever way the
//! request ends; a recorder that is dropped counts as cancelled.

mod choice;

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::Tokens;
use prometheus::IntCounter;

use self::choice::Choices;
use crate::families::Families;
use crate::series::Scope;
use crate::totals::Totals;
use crate::worker::RankHandles;
use crate::{Endpoint, RankMetrics, RequestOutcome};

/// What is known of a request before it is routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestShape {
    /// Its route.
    pub endpoint: Endpoint,
    /// Whether the client asked for a stream; a whole response has no first token and no pace.
    pub streamed: bool,
    /// Choices that the response will have: prompts × `n`.
    pub choices: u32,
}

/// Requests of one model by endpoint and outcome.
#[derive(Debug)]
pub struct RequestCounters {
    counters: [[IntCounter; RequestOutcome::VALUES.len()]; Endpoint::VALUES.len()],
    _series: Scope,
}

/// Records one request.
#[derive(Debug)]
pub struct RequestRecorder {
    requests: Arc<RequestCounters>,
    totals: Arc<Totals>,
    shape: RequestShape,
    rank: Option<Arc<RankHandles>>,
    input: Option<Tokens>,
    choices: Choices,
    completion_tokens: Option<Tokens>,
    /// What was generated before the engine that counts now.
    generated_before: Tokens,
    is_open: bool,
}

// === impl RequestCounters ===

impl RequestCounters {
    pub(crate) fn new(families: &Families, model: &str) -> Self {
        let mut scope = Scope::default();
        let counters = Endpoint::ALL.map(|endpoint| {
            RequestOutcome::ALL
                .map(|outcome| scope.hold(&families.requests, [model, endpoint.as_str(), outcome.as_str()]))
        });
        Self { counters, _series: scope }
    }

    /// Counts one request that is over.
    pub fn count(&self, endpoint: Endpoint, outcome: RequestOutcome) {
        self.counters[endpoint as usize][outcome as usize].inc();
    }
}

// === impl RequestRecorder ===

impl RequestRecorder {
    pub(crate) fn new(requests: Arc<RequestCounters>, totals: Arc<Totals>, shape: RequestShape) -> Self {
        Self {
            requests,
            totals,
            shape,
            rank: None,
            input: None,
            choices: Choices::new(shape.choices),
            completion_tokens: None,
            generated_before: Tokens::ZERO,
            is_open: true,
        }
    }

    /// Notes which rank serves the request now, and its input where the router counted it. A later attempt
    /// replaces an earlier one.
    pub fn served_by(&mut self, rank: &RankMetrics, input: Option<Tokens>) {
        self.rank = Some(rank.handles());
        self.input = input;
    }

    /// So many chunks of a stream, which came at once, brought a choice non-empty text.
    pub fn chunks(&mut self, choice: u32, count: u64, since_headers: Duration) {
        if !self.shape.streamed {
            return;
        }
        if self.choices.is_untouched() {
            self.totals.first_token_seconds.observe(since_headers.as_secs_f64());
            if let Some(rank) = &self.rank {
                rank.first_token(since_headers, self.input);
            }
        }
        self.choices.chunks(choice, count, since_headers);
    }

    /// A chunk told the ids of a choice's tokens: so many.
    pub fn token_ids(&mut self, choice: u32, count: u64) {
        self.choices.token_ids(choice, count);
    }

    /// The engine counted the generated tokens of the whole response. The latest count stands.
    pub fn completion_tokens(&mut self, tokens: Tokens) {
        self.completion_tokens = Some(self.generated_before + tokens);
    }

    /// Another engine goes on behind so many tokens of the response, and counts only what it generates itself. What the
    /// engine before counted of it does not stand.
    pub fn continues(&mut self, generated: Tokens) {
        self.generated_before = generated;
        self.completion_tokens = None;
    }

    /// The request is over.
    pub fn finish(mut self, outcome: RequestOutcome) {
        self.settle(outcome);
    }

    fn settle(&mut self, outcome: RequestOutcome) {
        self.is_open = false;
        for mean_seconds in self.choices.inter_token_seconds(self.completion_tokens) {
            self.totals.inter_token_seconds.observe(mean_seconds);
            if let Some(rank) = &self.rank {
                rank.inter_token(mean_seconds);
            }
        }
        let output = self.completion_tokens.unwrap_or_else(|| self.choices.tokens());
        if !output.is_zero() {
            self.totals.output_tokens.observe(output.get() as f64);
        }
        self.requests.count(self.shape.endpoint, outcome);
    }
}

impl Drop for RequestRecorder {
    fn drop(&mut self) {
        if self.is_open {
            self.settle(RequestOutcome::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests;
