//! Lets a repeated warning through once in a while, and says how many it kept back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// At most one message in this time: often enough to be seen within seconds, rare enough not to fill a disk.
const INTERVAL: Duration = Duration::from_secs(10);

/// One kind of warning.
#[derive(Debug, Default)]
pub(crate) struct LogGate {
    last: Mutex<Option<Instant>>,
    kept_back: AtomicU64,
}

// === impl LogGate ===

impl LogGate {
    /// A gate that has let nothing through yet.
    pub(crate) const fn new() -> Self {
        Self { last: Mutex::new(None), kept_back: AtomicU64::new(0) }
    }

    /// `Some(n)` if the message may be logged now, after `n` were kept back.
    pub(crate) fn open(&self) -> Option<u64> {
        let now = Instant::now();
        let mut last = self.last.lock();
        if last.is_some_and(|then| now.duration_since(then) < INTERVAL) {
            self.kept_back.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        *last = Some(now);
        Some(self.kept_back.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_message_an_interval_and_none_is_forgotten() {
        let gate = LogGate::default();
        assert_eq!([gate.open(), gate.open(), gate.open()], [Some(0), None, None]);
        tokio::time::advance(INTERVAL).await;
        assert_eq!(gate.open(), Some(2));
    }
}
