//! What a connection waits for, and since when.
//!
//! Kept in a few numbers that whoever makes something happen sets as it happens; one timer a connection looks at them. A
//! timer of its own for each wait would be armed and disarmed with every request.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::limits::Limits;

/// The clocks of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    began: Instant,
    /// Requests that are not answered to their end.
    running: AtomicUsize,
    /// Whether requests share the connection: then what comes is not the head of the next one.
    is_shared: AtomicBool,
    /// Since when a head is awaited or comes in.
    head: Since,
    /// Since when nothing runs and nothing comes.
    quiet: Since,
    /// Since when nothing can be written, because the client does not read.
    blocked: Since,
}

/// Milliseconds of the connection's life, one more than they are; 0: not now.
#[derive(Debug, Default)]
struct Since(AtomicU64);

/// What took a client too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// It did not send a request's head, or agree on a protocol.
    Head,
    /// It asked for nothing more.
    Quiet,
    /// It did not read what is there for it.
    Reader,
}

// === impl Pace ===

impl Pace {
    /// The connection has been accepted, and a first head is awaited.
    pub(super) fn start() -> Self {
        let pace = Self {
            began: Instant::now(),
            running: AtomicUsize::new(0),
            is_shared: AtomicBool::new(false),
            head: Since::default(),
            quiet: Since::default(),
            blocked: Since::default(),
        };
        pace.head.set(0);
        pace
    }

    /// From here on requests share the connection, which is open for them.
    pub(super) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
        self.head.clear();
        self.quiet.set(self.now());
    }

    /// A request's head is there.
    pub(super) fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.head.clear();
        self.quiet.clear();
    }

    /// A request is answered to its end.
    pub(super) fn end(&self) {
        if self.running.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.quiet.set(self.now());
        }
    }

    /// Something has come.
    pub(super) fn came(&self) {
        if self.quiet.get().is_some() && !self.is_shared() {
            self.quiet.clear();
            self.head.set(self.now());
        }
    }

    /// Something was written, or could not be.
    pub(super) fn wrote(&self, is_written: bool) {
        if is_written {
            self.blocked.clear();
        } else if self.blocked.get().is_none() {
            self.blocked.set(self.now());
        }
    }

    /// Whether a request is not answered to its end.
    pub(super) fn is_busy(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Whether requests share the connection.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// Whether the client does not read what is there for it.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.get().is_some()
    }

    /// Returns once the client takes too long for something.
    pub(super) async fn overdue(&self, limits: &Limits) -> Overdue {
        loop {
            match self.judge(self.now(), limits) {
                Ok(look_again_in) => sleep(look_again_in).await,
                Err(overdue) => return overdue,
            }
        }
    }

    /// What is overdue at `now`, or when something may be at the earliest.
    fn judge(&self, now: u64, limits: &Limits) -> Result<Duration, Overdue> {
        let is_idle = !self.is_busy();
        let waits = [
            (self.blocked.get(), limits.stall, Overdue::Reader),
            (self.head.get().filter(|_| is_idle), limits.head, Overdue::Head),
            (self.quiet.get().filter(|_| is_idle), limits.keep_alive, Overdue::Quiet),
        ];
        let mut next = limits.stall.min(limits.head).min(limits.keep_alive);
        for (since, limit, overdue) in waits {
            let Some(since) = since else { continue };
            let waited = Duration::from_millis(now.saturating_sub(since));
            if waited >= limit {
                return Err(overdue);
            }
            next = next.min(limit - waited);
        }
        Ok(next.max(Duration::from_millis(1)))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

// === impl Since ===

impl Since {
    fn set(&self, now: u64) {
        self.0.store(now + 1, Ordering::Relaxed);
    }

    fn clear(&self) {
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
    }

    fn get(&self) -> Option<u64> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }
}

// === impl Overdue ===

impl Overdue {
    /// What is said of it in the log.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Head => "it sent no whole request head within server.limits.head",
            Self::Quiet => "it asked for nothing within server.limits.keep_alive",
            Self::Reader => "it read nothing within server.limits.stall",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: fn() -> Limits = || Limits {
        head: Duration::from_secs(3),
        keep_alive: Duration::from_secs(7),
        stall: Duration::from_secs(5),
        ..Limits::default()
    };

    fn after(pace: &Pace, seconds: u64) -> Result<u64, Overdue> {
        pace.judge(seconds * 1000, &LIMITS()).map(|wait| wait.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_head_has_its_time_and_a_running_request_has_none() {
        let pace = Pace::start();
        assert_eq!(after(&pace, 0), Ok(3));
        assert_eq!(after(&pace, 2), Ok(1));
        assert_eq!(after(&pace, 3), Err(Overdue::Head));
        pace.begin();
        assert_eq!(after(&pace, 1000), Ok(3), "whoever is slow then is not the client");
    }

    #[tokio::test(start_paused = true)]
    async fn between_requests_a_connection_may_be_quiet_until_the_next_head_begins() {
        let pace = Pace::start();
        pace.begin();
        tokio::time::advance(Duration::from_secs(10)).await;
        pace.end();
        assert_eq!(after(&pace, 16), Ok(1));
        assert_eq!(after(&pace, 17), Err(Overdue::Quiet));
        tokio::time::advance(Duration::from_secs(6)).await;
        pace.came();
        assert_eq!(after(&pace, 18), Ok(1), "the head has a time of its own, from its first byte");
        tokio::time::advance(Duration::from_secs(1)).await;
        pace.came();
        assert_eq!(after(&pace, 19), Err(Overdue::Head), "more bytes give no more time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shared_connection_is_quiet_whatever_comes_beside_requests() {
        let pace = Pace::start();
        pace.share();
        tokio::time::advance(Duration::from_secs(6)).await;
        pace.came();
        assert_eq!(after(&pace, 7), Err(Overdue::Quiet));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_a_little_is_not_cut() {
        let pace = Pace::start();
        pace.begin();
        pace.wrote(false);
        tokio::time::advance(Duration::from_secs(4)).await;
        pace.wrote(false);
        assert_eq!(after(&pace, 5), Err(Overdue::Reader), "the first refusal counts");
        pace.wrote(true);
        assert_eq!(after(&pace, 5), Ok(3));
        pace.wrote(false);
        assert_eq!(after(&pace, 8), Ok(1));
        assert_eq!(after(&pace, 9), Err(Overdue::Reader));
    }
}
