//! Whether a worker takes requests, and why not.
//!
//! Three parties have a say: the probe (is it there and well), whoever runs the fleet (is it to be emptied), and the
//! requests themselves (did it fail them). Each says its own part and none overrides another, so that a worker that is well
//! again is not filled while it is emptied, and one that answers its probe gets no requests as long as it fails them. What
//! is shown and what decides follow from the parts in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kvroute_core::Exclusion;
use kvroute_metrics::{WorkerMetrics, WorkerState};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::breaker::{Admission, Breaker, Ticket};
use crate::config::BreakerConfig;

/// Everybody may pass, as a number that is no time.
const ALL: u64 = 0;

/// Nobody may pass.
const NOBODY: u64 = u64::MAX;

/// The parts.
#[derive(Debug)]
pub(super) struct Condition {
    /// What the probe found: ready, starting or unhealthy.
    health: AtomicU8,
    is_draining: AtomicBool,
    breaker: Mutex<Breaker>,
    /// Who the breaker lets pass, for those who look without a lock: microseconds of the worker's clock, or one of the two
    /// words above.
    admits_from: AtomicU64,
    problem: ArcSwap<String>,
    opened_by: ArcSwap<String>,
    clock: Instant,
    /// Held while the state is shown: of two changes at once the last one shown is the last one made.
    metrics: Mutex<WorkerMetrics>,
}

// === impl Condition ===

impl Condition {
    /// Of a worker that nobody has asked yet.
    pub(super) fn new(metrics: WorkerMetrics) -> Self {
        Self {
            health: AtomicU8::new(WorkerState::Starting as u8),
            is_draining: AtomicBool::new(false),
            breaker: Mutex::new(Breaker::new(BreakerConfig::default())),
            admits_from: AtomicU64::new(ALL),
            problem: ArcSwap::from_pointee("not asked yet".to_owned()),
            opened_by: ArcSwap::default(),
            clock: Instant::now(),
            metrics: Mutex::new(metrics),
        }
    }

    /// What is shown of all parts.
    pub(super) fn state(&self) -> WorkerState {
        match self.health() {
            WorkerState::Starting => WorkerState::Starting,
            _ if self.is_draining() => WorkerState::Draining,
            WorkerState::Ready if self.is_open() => WorkerState::Open,
            health => health,
        }
    }

    /// What is wrong with it; empty if nothing.
    pub(super) fn problem(&self) -> Arc<String> {
        match self.state() {
            WorkerState::Open => self.opened_by.load_full(),
            _ => self.problem.load_full(),
        }
    }

    /// What the probe found.
    pub(super) fn health(&self) -> WorkerState {
        let current = self.health.load(Ordering::Acquire);
        WorkerState::ALL.into_iter().find(|state| *state as u8 == current).unwrap_or(WorkerState::Unhealthy)
    }

    /// What the probe said.
    pub(super) fn health_problem(&self) -> Arc<String> {
        self.problem.load_full()
    }

    /// What the probe finds: ready, starting or unhealthy. True if that is another state than before.
    pub(super) fn enter(&self, health: WorkerState, problem: String) -> bool {
        self.problem.store(Arc::new(problem));
        let before = self.health.swap(health as u8, Ordering::AcqRel);
        if before == WorkerState::Unhealthy as u8 && health == WorkerState::Ready {
            self.change_breaker(|breaker, now| breaker.may_be_tried(now));
        }
        self.show();
        before != health as u8
    }

    /// Whether it is to be emptied.
    pub(super) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// It is to be emptied, or not any more.
    pub(super) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Release);
        self.show();
    }

    /// Why no request may go there, whatever the requests before it came to; `None` if one may.
    pub(super) fn exclusion(&self) -> Option<Exclusion> {
        if self.is_draining() {
            return Some(Exclusion::Draining);
        }
        let is_ready = self.health.load(Ordering::Acquire) == WorkerState::Ready as u8;
        (!is_ready).then_some(Exclusion::Unhealthy)
    }

    /// Whether the breaker lets one more pass.
    pub(super) fn is_admitted(&self) -> bool {
        match self.admits_from.load(Ordering::Acquire) {
            ALL => true,
            NOBODY => false,
            from => from <= micros(self.now()),
        }
    }

    /// Whether the breaker is open, its time over or not.
    pub(super) fn is_open(&self) -> bool {
        self.admits_from.load(Ordering::Acquire) != ALL
    }

    /// How bad an open breaker is, to be compared with that of other workers: whether somebody tries already, and how long
    /// until it may be tried.
    pub(super) fn badness(&self) -> (bool, Duration) {
        let breaker = self.breaker.lock();
        let left = breaker.open_until().map(|until| until.saturating_sub(self.now()));
        (breaker.admission() == Admission::Nobody, left.unwrap_or_default())
    }

    /// The worker is another one than before, with nothing on its account.
    pub(super) fn forgive(&self, config: BreakerConfig) {
        self.change_breaker(|breaker, _now| breaker.reset(config));
        self.show();
    }

    /// From now on the breaker goes by this.
    pub(super) fn configure_breaker(&self, config: BreakerConfig) {
        self.change_breaker(|breaker, _now| breaker.configure(config));
        self.show();
    }

    /// An attempt goes there.
    pub(super) fn pass(&self) -> Ticket {
        self.change_breaker(|breaker, now| breaker.enter(now))
    }

    /// The first piece of its answer came. True if that closed the breaker.
    pub(super) fn shows_life(&self, ticket: Ticket) -> bool {
        self.is_open() && self.told(|breaker, _now| breaker.shows_life(ticket))
    }

    /// It was answered to its end. True if that closed the breaker.
    pub(super) fn succeeded(&self, ticket: Ticket) -> bool {
        self.told(|breaker, now| breaker.succeeded(ticket, now))
    }

    /// The worker failed at it. Gives for how long it is left alone, where this opened the breaker.
    pub(super) fn failed(&self, ticket: Ticket, cause: &str) -> Option<Duration> {
        let random = rand::random::<f64>();
        let opened = self.change_breaker(|breaker, now| breaker.failed(ticket, now, random));
        if let Some(cooldown) = opened {
            let text = format!(
                "its circuit breaker is open, the last failure: {cause}; it is tried again after {:.1} s",
                cooldown.as_secs_f64()
            );
            self.opened_by.store(Arc::new(text));
            self.show();
        }
        opened
    }

    /// It is over and shows nothing.
    pub(super) fn left(&self, ticket: Ticket) {
        self.change_breaker(|breaker, _now| breaker.left(ticket));
    }

    fn told(&self, tell: impl FnOnce(&mut Breaker, Duration)) -> bool {
        let was_open = self.change_breaker(|breaker, now| {
            let was_open = breaker.open_until().is_some();
            tell(breaker, now);
            was_open && breaker.open_until().is_none()
        });
        if was_open {
            self.show();
        }
        was_open
    }

    fn change_breaker<T>(&self, change: impl FnOnce(&mut Breaker, Duration) -> T) -> T {
        let mut breaker = self.breaker.lock();
        let result = change(&mut breaker, self.now());
        let admits = match breaker.admission() {
            Admission::All => ALL,
            Admission::OneFrom(from) => micros(from).clamp(ALL + 1, NOBODY - 1),
            Admission::Nobody => NOBODY,
        };
        self.admits_from.store(admits, Ordering::Release);
        result
    }

    fn show(&self) {
        let metrics = self.metrics.lock();
        metrics.set_state(self.state());
    }

    fn now(&self) -> Duration {
        self.clock.elapsed()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(NOBODY - 1).max(ALL + 1)
}
