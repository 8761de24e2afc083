//! The right to take the next decision.

use std::fmt;
use std::time::Duration;

use crate::gate::{Gate, Room};

/// Held until its decision is booked, or is known not to be. Dropping it lets the next one in.
#[must_use = "whoever is next is let in when this is dropped"]
pub(crate) struct Turn<'a, R: Room> {
    /// `None` for one that nobody waits for.
    gate: Option<&'a Gate<R>>,
    waited: Duration,
}

// === impl Turn ===

impl<'a, R: Room> Turn<'a, R> {
    /// The turn of one who never waited; others may wait for its end.
    pub(super) const fn at_once(gate: Option<&'a Gate<R>>) -> Self {
        Self { gate, waited: Duration::ZERO }
    }

    /// The turn of one who waited.
    pub(super) const fn after(gate: &'a Gate<R>, waited: Duration) -> Self {
        Self { gate: Some(gate), waited }
    }

    /// How long it was waited for.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }
}

impl<R: Room> fmt::Debug for Turn<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("waited", &self.waited).finish_non_exhaustive()
    }
}

impl<R: Room> Drop for Turn<'_, R> {
    fn drop(&mut self) {
        if let Some(gate) = self.gate {
            gate.end_turn();
        }
    }
}
