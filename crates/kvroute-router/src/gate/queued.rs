//! One request in line.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use kvroute_metrics::RequestInLine;
use kvroute_select::TicketId;
use tokio::time::Instant;

use crate::gate::{Gate, Refused, Room, Standing, Turn};

/// Resolves with the turn, or because the gate was closed. Dropped without its turn, it leaves the line, or passes on the
/// turn that it was given.
pub(super) struct Queued<'a, R: Room> {
    gate: &'a Gate<R>,
    /// `None` once it has left the line and taken what it was given.
    id: Option<TicketId>,
    since: Instant,
    _counted: RequestInLine,
}

// === impl Queued ===

impl<'a, R: Room> Queued<'a, R> {
    /// One that has just joined under this id.
    pub(super) fn new(gate: &'a Gate<R>, id: TicketId) -> Self {
        Self { gate, id: Some(id), since: Instant::now(), _counted: gate.metrics.entered() }
    }

    /// Its deadline has passed. One that was given the turn in the meantime takes it.
    pub(super) fn give_up(mut self) -> Result<Turn<'a, R>, Refused> {
        match self.id.take() {
            Some(id) if !self.gate.leave(id) => Ok(self.take_turn()),
            _ => Err(Refused::TimedOut { waited: self.since.elapsed() }),
        }
    }

    fn take_turn(&mut self) -> Turn<'a, R> {
        self.id = None;
        let waited = self.since.elapsed();
        self.gate.metrics.waited(waited);
        Turn::after(self.gate, waited)
    }
}

impl<'a, R: Room> Future for Queued<'a, R> {
    type Output = Result<Turn<'a, R>, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(id) = self.id else { return Poll::Pending };
        match self.gate.standing(id, context.waker()) {
            Standing::Waits => Poll::Pending,
            Standing::HasTurn => Poll::Ready(Ok(self.take_turn())),
            Standing::TurnedAway => Poll::Ready(Err(Refused::Closed)),
        }
    }
}

impl<R: Room> Drop for Queued<'_, R> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && !self.gate.leave(id)
        {
            self.gate.end_turn();
        }
    }
}
