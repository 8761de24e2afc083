//! Time that one thread worked.
//!
//! On a machine that has other work as well, a thread waits for a core again and again, and a rate by the clock says
//! more about the others than about the thread. Linux tells how long it waited, exactly; elsewhere nothing is taken off.
//! Only the calling thread's waiting is known: who hands work to a thread of his own is measured by the clock.

use std::fs;
use std::time::{Duration, Instant};

/// Started when made.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    start: Instant,
    waited: Duration,
}

// === impl Stopwatch ===

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let waited = waited_for_a_core();
        Self { start: Instant::now(), waited }
    }

    /// Time since the start, less the time in which this thread could have run and had no core.
    pub(crate) fn worked(&self) -> Duration {
        let passed = self.start.elapsed();
        passed.saturating_sub(waited_for_a_core().saturating_sub(self.waited))
    }
}

/// The second number is the time in nanoseconds that the thread spent waiting on a run queue.
fn waited_for_a_core() -> Duration {
    let numbers = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = numbers.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_clock_says() {
        let clock = Instant::now();
        let watch = Stopwatch::start();
        let sum: u64 = (0..1_000_000).map(std::hint::black_box).sum();
        let worked = watch.worked();
        assert!(sum > 0 && worked <= clock.elapsed());
    }
}
