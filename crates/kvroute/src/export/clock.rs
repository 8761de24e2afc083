//! The time of spans: when by the clock on the wall, how long by one that only goes forward.

use std::time::SystemTime;

use tokio::time::Instant;

/// A time by the clock on the wall.
pub(super) type Moment = SystemTime;

/// A look at the clock on the wall, and what has passed since. That clock may jump while a request runs, and a span that ended
/// before it began, or outside of its parent, is one that no collector can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    read: Moment,
    since: Instant,
}

// === impl Clock ===

impl Clock {
    /// Reads it.
    pub(super) fn read() -> Self {
        Self::set_to(SystemTime::now())
    }

    /// The same where it says this.
    pub(super) fn set_to(read: Moment) -> Self {
        Self { read, since: Instant::now() }
    }

    /// The time now.
    pub(super) fn now(&self) -> Moment {
        self.read.checked_add(self.since.elapsed()).unwrap_or(self.read)
    }
}
