//! Decisions at a given rate from several threads, while events are applied to the index: what a caller waits for,
//! the lock included.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::contestant::{Callers, Contestant};
use super::flights::Flights;
use super::steady::{fill, prepared, sorted_nanoseconds};
use super::traffic::Traffic;
use crate::index::measure::percentile;
use crate::index::workload::Workload;

/// Threads that decide.
const DECIDERS: usize = 2;

/// How often the events that are due are applied.
const EVENTS_EVERY: Duration = Duration::from_micros(500);

/// What to do, and how fast.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) in_flight: usize,
    /// Decisions a second, all threads together.
    pub(crate) rate: f64,
    pub(crate) time: Duration,
}

/// What the callers saw, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) half: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// Decisions a second that were made.
    pub(crate) rate: f64,
    /// Events a second that were applied meanwhile.
    pub(crate) events: f64,
}

// === impl Pace ===

impl Pace<'_> {
    /// One run of one contestant, on an index of its own that holds half of what the workload stores; the other half
    /// comes while decisions are made, evenly over the time.
    pub(crate) fn run<C: Contestant>(&self) -> Result<Waits> {
        let (known, coming) = self.workload.halves();
        let contestant: C = prepared(self.workload.workers, Callers::Several, known)?;
        let mut traffic = Traffic::new(self.workload);
        let mut flights: Vec<Flights<C>> =
            (0..DECIDERS).map(|_| Flights::new(self.in_flight / DECIDERS)).collect();
        for flights in &mut flights {
            fill(&contestant, flights, &mut traffic)?;
        }
        let coming: Vec<C::Event> = coming.iter().map(C::event).collect();
        let start = Instant::now();
        let (applied, waits) = thread::scope(|scope| {
            let contestant = &contestant;
            let events = scope.spawn(move || self.apply_evenly(contestant, coming, start));
            let deciders: Vec<_> = (0..DECIDERS)
                .zip(flights)
                .map(|(number, flights)| {
                    let traffic = traffic.share(number, DECIDERS);
                    scope.spawn(move || self.decide_evenly(contestant, flights, traffic, start))
                })
                .collect();
            let waits: Result<Vec<_>> = deciders.into_iter().map(joined).collect();
            (joined_count(events), waits)
        });
        let passed = start.elapsed().as_secs_f64();
        let sorted = sorted_nanoseconds(waits?.into_iter().flatten());
        let at = |share| percentile(&sorted, share) / 1e3;
        Ok(Waits {
            half: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            rate: sorted.len() as f64 / passed,
            events: applied? as f64 / passed,
        })
    }

    /// One thread's share of the decisions. One that was late is followed by the next at once.
    fn decide_evenly<C: Contestant>(
        &self,
        contestant: &C,
        mut flights: Flights<C>,
        traffic: Traffic<'_>,
        start: Instant,
    ) -> Result<Vec<Duration>> {
        let between = Duration::from_secs_f64(DECIDERS as f64 / self.rate);
        let mut waits = Vec::new();
        let mut due = Duration::ZERO;
        for request in traffic {
            thread::sleep(due.saturating_sub(start.elapsed()));
            waits.push(flights.step(contestant, &request)?.parts.whole());
            due += between;
            if due > self.time {
                break;
            }
        }
        Ok(waits)
    }

    /// Returns how many events were applied.
    fn apply_evenly<C: Contestant>(&self, contestant: &C, events: Vec<C::Event>, start: Instant) -> usize {
        let all = events.len();
        let mut events = events.into_iter();
        while start.elapsed() < self.time {
            let share = start.elapsed().as_secs_f64() / self.time.as_secs_f64();
            let due = (all as f64 * share) as usize;
            let applied = all - events.len();
            events.by_ref().take(due.saturating_sub(applied)).for_each(|event| contestant.apply(event));
            thread::sleep(EVENTS_EVERY);
        }
        all - events.len()
    }
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread that decides ended before its time"))?
}

fn joined_count(thread: thread::ScopedJoinHandle<'_, usize>) -> Result<usize> {
    thread.join().map_err(|_| anyhow!("the thread of the events ended before its time"))
}
