//! How long a worker may be silent: before the first piece of a stream, and between two of them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::config::Timeouts;

/// Moved on by every piece, so the clock is only looked at when it rings.
#[derive(Debug)]
pub(super) struct IdleLimit {
    limit: Duration,
    /// `None` before the first one.
    last_piece: Option<Instant>,
    /// The limit of the first piece, and when it is over.
    first: (&'static str, Duration, Instant),
    alarm: Pin<Box<Sleep>>,
}

// === impl IdleLimit ===

impl IdleLimit {
    /// Nothing but the head has come yet, of an attempt whose total limit is over at `deadline`.
    pub(super) fn new(timeouts: &Timeouts, deadline: Instant) -> Self {
        let now = Instant::now();
        let began = deadline.checked_sub(timeouts.total).unwrap_or(now);
        let first = timeouts.first_piece(began, now);
        Self { limit: timeouts.idle, last_piece: None, first, alarm: Box::pin(sleep_until(first.2)) }
    }

    /// Something came; gives when.
    pub(super) fn piece_came(&mut self) -> Instant {
        let now = Instant::now();
        if self.last_piece.replace(now).is_none() {
            self.alarm.as_mut().reset(now + self.limit);
        }
        now
    }

    /// Ready once nothing has come for too long, with the limit's name and value.
    pub(super) fn poll_exceeded(&mut self, context: &mut Context<'_>) -> Poll<(&'static str, Duration)> {
        loop {
            if self.alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let (name, limit, until) =
                self.last_piece.map_or(self.first, |piece| ("idle", self.limit, piece + self.limit));
            if Instant::now() >= until {
                return Poll::Ready((name, limit));
            }
            self.alarm.as_mut().reset(until);
        }
    }
}
