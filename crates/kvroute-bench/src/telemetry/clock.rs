//! The clock that a request's times are read from.

use std::time::{Duration, Instant};

/// Tells how long ago the request arrived.
pub(crate) trait Clock {
    fn elapsed(&mut self) -> Duration;
}

/// The machine's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealClock(Instant);

/// Goes on by one step with each look, so that two who look equally often see equal times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SteppingClock {
    pub(crate) looks: u32,
}

/// A power of two in seconds: sums of it are exact.
const STEP: Duration = Duration::from_nanos(1_953_125);

// === impl RealClock ===

impl RealClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RealClock {
    fn elapsed(&mut self) -> Duration {
        self.0.elapsed()
    }
}

// === impl SteppingClock ===

impl Clock for SteppingClock {
    fn elapsed(&mut self) -> Duration {
        self.looks += 1;
        STEP * self.looks
    }
}
