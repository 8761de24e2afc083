//! What the driver has done so far, for the view while it runs and for the result at its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Counts of one run. Written by every request's task, read at any time.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    sent: AtomicU64,
    done: AtomicU64,
    errors: AtomicU64,
    first_error: Mutex<Option<String>>,
    first_token_times: Mutex<Vec<Duration>>,
}

// === impl Progress ===

impl Progress {
    /// A request goes out.
    pub(crate) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// A request was answered, its first token after so long.
    pub(crate) fn answered(&self, first_token: Option<Duration>) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.first_token_times.lock().extend(first_token);
    }

    /// A request failed. The first message is kept: the others mostly repeat it.
    pub(crate) fn failed(&self, message: String) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.first_error.lock().get_or_insert(message);
    }

    /// Requests that went out.
    pub(crate) fn requests(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Requests that are over, well or not.
    pub(crate) fn finished(&self) -> u64 {
        self.done.load(Ordering::Relaxed) + self.errors()
    }

    /// Requests that failed.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// What the first failed request said.
    pub(crate) fn first_error(&self) -> Option<String> {
        self.first_error.lock().clone()
    }

    /// Percentiles of the times to the first token so far.
    pub(crate) fn first_token_percentiles(&self) -> Percentiles {
        let mut times = self.first_token_times.lock().clone();
        Percentiles::of(&mut times)
    }
}

/// Points of a distribution; absent where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Percentiles {
    pub(crate) p50: Option<Duration>,
    pub(crate) p90: Option<Duration>,
    pub(crate) p99: Option<Duration>,
}

// === impl Percentiles ===

impl Percentiles {
    /// By the nearest rank: every value is one that was measured.
    fn of(times: &mut [Duration]) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100);
            times.get(rank.checked_sub(1)?).copied()
        };
        Self { p50: at(50), p90: at(90), p99: at(99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles(millis: impl Iterator<Item = u64>) -> [Option<u128>; 3] {
        let mut times: Vec<Duration> = millis.map(Duration::from_millis).collect();
        let found = Percentiles::of(&mut times);
        [found.p50, found.p90, found.p99].map(|time| time.map(|time| time.as_millis()))
    }

    #[test]
    fn percentiles_are_measured_values() {
        assert_eq!(percentiles((1..=200).rev()), [Some(100), Some(180), Some(198)]);
        assert_eq!(percentiles([7].into_iter()), [Some(7); 3]);
        assert_eq!(percentiles(std::iter::empty()), [None; 3]);
    }

    #[test]
    fn failed_requests_are_finished_and_the_first_message_stays() {
        let progress = Progress::default();
        progress.sent();
        progress.sent();
        progress.failed("first".to_owned());
        progress.failed("second".to_owned());
        assert_eq!((progress.requests(), progress.finished(), progress.errors()), (2, 2, 2));
        assert_eq!(progress.first_error().as_deref(), Some("first"));
    }
}
