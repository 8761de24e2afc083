//! What one attempt tells of its worker: that it answered, that it failed, or nothing.
//!
//! Held by the attempt, so that what is dropped anywhere on its way (a client that left, a request that is refused) gives
//! the permit to try a worker back.

use std::sync::Arc;

use super::Worker;
use crate::breaker::Ticket;

/// The right to use a worker, for one attempt.
#[derive(Debug)]
pub(crate) struct Pass {
    worker: Arc<Worker>,
    /// `None` once it has told.
    ticket: Option<Ticket>,
}

// === impl Pass ===

impl Pass {
    pub(super) fn new(worker: &Arc<Worker>) -> Self {
        Self { ticket: Some(worker.condition.pass()), worker: Arc::clone(worker) }
    }

    /// The first piece of the answer came.
    pub(crate) fn shows_life(&self) {
        if self.ticket.is_some_and(|ticket| self.worker.condition.shows_life(ticket)) {
            tracing::info!(worker = %self.worker.id(), "worker answers again, it gets requests on probation");
        }
    }

    /// The worker answered to the end.
    pub(crate) fn succeeded(mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        if self.worker.condition.succeeded(ticket) {
            tracing::info!(worker = %self.worker.id(), "worker answers again, its circuit breaker is closed");
        }
    }

    /// The worker failed, in words.
    pub(crate) fn failed(mut self, cause: &str) {
        let Some(ticket) = self.ticket.take() else { return };
        if let Some(cooldown) = self.worker.condition.failed(ticket, cause) {
            let worker = self.worker.id();
            tracing::warn!(%worker, cause, ?cooldown, "worker fails its requests, its circuit breaker is open");
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.worker.condition.left(ticket);
        }
    }
}
