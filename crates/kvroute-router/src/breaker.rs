//! When a worker's own failures take it out of the choice, and when it gets another chance.
//!
//! A worker that fails quickly is never busy, and what it failed at is taken back from its load: without this it would
//! draw the traffic of the whole pool. So whoever fails too often in a row, or too large a part of the last while, is left
//! alone for a time that grows with every failed trial. When that time is over it is given one request to show itself. The
//! first sign of an answer lets others in again, on probation: one failure before the first complete answer closes it for
//! longer than before.
//!
//! Pure: time and random numbers come in as arguments. A ticket says what an attempt was let in as, so that what began
//! before the breaker opened says nothing about the worker as it is now.

use std::time::Duration;

use crate::config::BreakerConfig;
use crate::window::Window;

/// Answers and failures within the window below which a share says nothing.
const LEAST_ATTEMPTS: u64 = 10;

/// Part of a cooldown that is random, so that workers which failed together do not come back together.
const JITTER: f64 = 0.25;

const FAILED: usize = 0;
const ANSWERED: usize = 1;

/// What is known of one worker from the requests that it was given.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    config: BreakerConfig,
    phase: Phase,
    /// Grows whenever what is known so far stops to matter.
    era: u64,
    failures: u32,
    window: Window,
    /// How often it was opened since the worker last answered a request to its end.
    openings: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed {
        /// It has shown a sign of life, and no complete answer.
        on_probation: bool,
    },
    Open {
        /// When it may be tried.
        until: Duration,
        /// Whether somebody tries.
        is_tried: bool,
    },
}

/// What an attempt was let in as. It is given back in the end, with what it showed or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    era: u64,
    kind: TicketKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TicketKind {
    /// One of many.
    Usual,
    /// The one that tries whether the worker is in order again.
    Trial {
        /// Before its time, because there was nobody else.
        is_early: bool,
    },
    /// Let in though the breaker is open and somebody tries already, because there was nobody else.
    Further,
}

/// Who may pass, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Everybody.
    All,
    /// One, from then on.
    OneFrom(Duration),
    /// Nobody, until the one who tries is back.
    Nobody,
}

// === impl Breaker ===

impl Breaker {
    /// Closed.
    pub(crate) fn new(config: BreakerConfig) -> Self {
        Self {
            phase: Phase::Closed { on_probation: false },
            era: 0,
            failures: 0,
            window: Window::new(config.window),
            openings: 0,
            config,
        }
    }

    /// Who may pass.
    pub(crate) const fn admission(&self) -> Admission {
        match self.phase {
            Phase::Closed { .. } => Admission::All,
            Phase::Open { until, is_tried: false } => Admission::OneFrom(until),
            Phase::Open { is_tried: true, .. } => Admission::Nobody,
        }
    }

    /// When its time is over; `None` while it is closed.
    pub(crate) const fn open_until(&self) -> Option<Duration> {
        match self.phase {
            Phase::Closed { .. } => None,
            Phase::Open { until, .. } => Some(until),
        }
    }

    /// An attempt goes to the worker, whether it should or not.
    pub(crate) fn enter(&mut self, now: Duration) -> Ticket {
        let kind = match &mut self.phase {
            Phase::Closed { .. } => TicketKind::Usual,
            Phase::Open { is_tried: true, .. } => TicketKind::Further,
            Phase::Open { until, is_tried } => {
                *is_tried = true;
                TicketKind::Trial { is_early: now < *until }
            }
        };
        Ticket { era: self.era, kind }
    }

    /// The first piece of an answer came. A trial lets others in by it: an answer may take minutes.
    pub(crate) fn shows_life(&mut self, ticket: Ticket) {
        if ticket.era == self.era && self.open_until().is_some() {
            self.close(true);
        }
    }

    /// The attempt was answered to its end.
    pub(crate) fn succeeded(&mut self, ticket: Ticket, now: Duration) {
        if ticket.era != self.era {
            return;
        }
        if self.phase != (Phase::Closed { on_probation: false }) {
            self.close(false);
        }
        self.failures = 0;
        self.openings = 0;
        self.window.count(ANSWERED, now);
    }

    /// The worker failed. `random` is between 0 and 1. Gives how long the worker is now left alone, where this opened the
    /// breaker.
    pub(crate) fn failed(&mut self, ticket: Ticket, now: Duration, random: f64) -> Option<Duration> {
        if ticket.era != self.era || !self.config.enabled {
            self.left(ticket);
            return None;
        }
        match (self.phase, ticket.kind) {
            (Phase::Closed { on_probation: true }, _) => Some(self.open(now, random)),
            (Phase::Closed { .. }, _) => {
                self.failures = self.failures.saturating_add(1);
                self.window.count(FAILED, now);
                self.has_failed_too_often(now).then(|| self.open(now, random))
            }
            (Phase::Open { .. }, TicketKind::Trial { is_early: false }) => Some(self.open(now, random)),
            // A trial before its time costs no further time, or all workers that failed together would stay away for long
            // although the first of them is back.
            (Phase::Open { .. }, _) => {
                self.left(ticket);
                None
            }
        }
    }

    /// The attempt is over and shows nothing about the worker.
    pub(crate) fn left(&mut self, ticket: Ticket) {
        if let (Phase::Open { is_tried, .. }, TicketKind::Trial { .. }) = (&mut self.phase, ticket.kind)
            && ticket.era == self.era
        {
            *is_tried = false;
        }
    }

    /// The worker was away and answers its probe again: it need not wait any longer to be tried. Once: whoever answers every
    /// probe and fails every request would never be left alone.
    pub(crate) fn may_be_tried(&mut self, now: Duration) {
        if let Phase::Open { until, .. } = &mut self.phase
            && self.openings == 1
        {
            *until = now.min(*until);
        }
    }

    /// From now on it goes by this; what was counted in a window of another length is forgotten.
    pub(crate) fn configure(&mut self, config: BreakerConfig) {
        if config.window != self.config.window {
            self.window = Window::new(config.window);
        }
        if !config.enabled && self.open_until().is_some() {
            self.close(false);
        }
        self.config = config;
    }

    /// The worker is another one now.
    pub(crate) fn reset(&mut self, config: BreakerConfig) {
        let era = self.era + 1;
        *self = Self { era, ..Self::new(config) };
    }

    fn has_failed_too_often(&mut self, now: Duration) -> bool {
        let [failed, answered] = self.window.totals(now);
        let all = failed + answered;
        let is_large_part = all >= LEAST_ATTEMPTS && failed as f64 >= self.config.share * all as f64;
        self.failures >= self.config.failures.max(1) || is_large_part
    }

    fn open(&mut self, now: Duration, random: f64) -> Duration {
        let doublings = self.openings.min(16);
        self.openings = self.openings.saturating_add(1);
        self.era += 1;
        self.forget_counts();
        let whole = (self.config.cooldown * (1 << doublings)).min(self.config.longest);
        let cooldown = whole.mul_f64(1.0 - JITTER * random.clamp(0.0, 1.0));
        self.phase = Phase::Open { until: now + cooldown, is_tried: false };
        cooldown
    }

    fn close(&mut self, on_probation: bool) {
        self.phase = Phase::Closed { on_probation };
        self.forget_counts();
    }

    fn forget_counts(&mut self) {
        self.failures = 0;
        self.window.clear();
    }
}

#[cfg(test)]
mod tests;
