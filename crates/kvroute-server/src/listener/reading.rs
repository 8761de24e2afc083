//! Whether the client of one stream of HTTP/2 reads it.
//!
//! The connection cannot tell: it goes on for the other streams. The stream's body can, since nobody asks it for more while
//! what it gave last has not been taken. But a body that nobody asks does nothing, so the task that serves the stream has to
//! look. The two find each other by the task that they are part of.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

tokio::task_local! {
    static OF_THIS_STREAM: Arc<Reading>;
}

/// Since when the client of a stream has not taken what was given to it.
#[derive(Debug)]
pub(super) struct Reading {
    began: Instant,
    /// Milliseconds since then, one more than they are; 0: the client waits for us.
    untaken: AtomicU64,
}

// === impl Reading ===

impl Reading {
    /// Of the stream that this task serves; `None`: it serves a whole connection.
    pub(super) fn of_stream() -> Option<Arc<Self>> {
        OF_THIS_STREAM.try_with(Arc::clone).ok()
    }

    /// Serves a stream to its end, or until its client has taken nothing for `stall`. Dropping the rest resets the stream.
    pub(super) async fn watch(stream: impl Future<Output = ()>, stall: Duration) {
        let reading = Arc::new(Self { began: Instant::now(), untaken: AtomicU64::new(0) });
        tokio::select! {
            biased;
            () = OF_THIS_STREAM.scope(Arc::clone(&reading), stream) => {}
            () = reading.stalled(stall) => tracing::debug!(?stall, "a client does not read a stream, which is reset"),
        }
    }

    /// The body was asked for more, and gave something or has to wait for it itself.
    pub(super) fn asked(&self, has_given: bool) {
        let untaken = if has_given { self.now() + 1 } else { 0 };
        self.untaken.store(untaken, Ordering::Relaxed);
    }

    async fn stalled(&self, stall: Duration) {
        loop {
            let untaken = self.untaken.load(Ordering::Relaxed);
            let waited = untaken.checked_sub(1).map(|since| self.now().saturating_sub(since));
            let left = stall.saturating_sub(Duration::from_millis(waited.unwrap_or(0)));
            if left.is_zero() {
                return;
            }
            sleep(left).await;
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}
