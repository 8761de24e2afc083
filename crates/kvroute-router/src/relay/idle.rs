//! How long a worker may be silent in the middle of a stream.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Moved on by every piece, so the clock is only looked at when it rings.
#[derive(Debug)]
pub(super) struct IdleLimit {
    limit: Duration,
    last_piece: Instant,
    alarm: Pin<Box<Sleep>>,
}

// === impl IdleLimit ===

impl IdleLimit {
    /// Nothing has come yet.
    pub(super) fn new(limit: Duration) -> Self {
        let now = Instant::now();
        Self { limit, last_piece: now, alarm: Box::pin(sleep_until(now + limit)) }
    }

    /// Something came; gives when.
    pub(super) fn piece_came(&mut self) -> Instant {
        self.last_piece = Instant::now();
        self.last_piece
    }

    /// Ready once nothing has come for too long.
    pub(super) fn poll_exceeded(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            let idle_until = self.last_piece + self.limit;
            if Instant::now() >= idle_until {
                return Poll::Ready(());
            }
            self.alarm.as_mut().reset(idle_until);
        }
    }
}
