//! The second part of a stream, made to look like the first.

use std::sync::Arc;

use kvroute_funnel::Close;
use kvroute_openai::{Delivered, StreamScanner, UsageCorrection};
use tokio::time::Instant;

use super::Migration;
use crate::attempt::Attempt;
use crate::dispatch::{Answer, Sent, Streamed};
use crate::error::Reason;
use crate::handover::Answered;
use crate::pool::Pool;

/// A stream that another worker has begun.
#[derive(Debug)]
pub(crate) struct Continuation {
    pub(crate) upstream: Streamed,
    pub(crate) scanner: StreamScanner,
    pub(crate) attempt: Attempt,
    pub(crate) deadline: Instant,
    /// What it takes to continue it once more.
    pub(crate) migration: Migration,
}

// === impl Continuation ===

impl Continuation {
    /// Of an answer behind so many tokens that the client has.
    ///
    /// # Errors
    /// The worker answered with something else than a stream; its attempt is closed then.
    pub(super) fn of(
        answered: Answered,
        migration: Migration,
        delivered: Delivered,
        kept: usize,
    ) -> Result<Self, Reason> {
        let Answered { sent: Sent { attempt, answer, injected, limits }, correction, .. } = answered;
        let upstream = match answer {
            Answer::Stream(_, upstream) => upstream,
            Answer::Whole(head, _) => {
                let (worker, said) =
                    (&attempt.rank().name.worker, format!("answered with status {}", head.status));
                let reason = Reason::new(format!("worker {worker} {said}"), format!("another worker {said}"));
                attempt.finish(Close::Failed);
                return Err(reason);
            }
        };
        let prompt = migration.prompt().map(|ids| ids.len() as u64);
        let scanner = StreamScanner::with_token_ids(injected.usage_chunk(), injected.ids_in_answer(&attempt))
            .correcting(behind(correction, prompt.filter(|_| kept > 0), kept))
            .keeping(delivered.continued_behind(kept));
        Ok(Self { upstream, scanner, attempt, deadline: limits.deadline, migration })
    }

    pub(super) fn pool(&self) -> &Arc<Pool> {
        self.attempt.pool()
    }
}

/// The usage of all parts, in the words of the last one: the prompt is the client's, without what was generated.
fn behind(correction: UsageCorrection, prompt: Option<u64>, kept: usize) -> UsageCorrection {
    let cached = correction.cached.map(|cached| prompt.map_or(cached, |prompt| cached.min(prompt)));
    UsageCorrection { prompt: prompt.or(correction.prompt), cached, completion_before: kept as u64 }
}
