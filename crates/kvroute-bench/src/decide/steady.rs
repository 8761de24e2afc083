//! Decisions one after the other on one thread, part by part.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::contestant::{Callers, Contestant};
use super::flights::{Flights, Step};
use super::traffic::Traffic;
use crate::index::measure::percentile;
use crate::index::workload::{Event, Workload};

/// Some take a hundred times as long as others; this is enough for any.
const LONGEST_PHASE: Duration = Duration::from_millis(1000);

/// What is measured of a decision and of what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Hash,
    Lookup,
    Decide,
    Whole,
    FirstToken,
    Release,
}

/// Times of one stage in one phase, in microseconds. Reading the clock is part of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) half: f64,
    pub(crate) p99: f64,
}

/// A contestant in the middle of its comparison.
pub(crate) struct Runner<'a, C: Contestant> {
    contestant: C,
    flights: Flights<C>,
    traffic: Traffic<'a>,
}

/// A [`Runner`] of any contestant.
pub(crate) trait Contest {
    /// Decides for a while; one spread for each of [`Stage::ALL`].
    fn phase(&mut self) -> Result<Vec<Spread>>;
    /// The most and the least attempts in flight on one worker. Fails if some were lost.
    fn loads(&self) -> Result<(usize, usize)>;
}

// === impl Stage ===

impl Stage {
    pub(crate) const ALL: [Self; 6] =
        [Self::Hash, Self::Lookup, Self::Decide, Self::Whole, Self::FirstToken, Self::Release];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Lookup => "lookup",
            Self::Decide => "decide and book",
            Self::Whole => "whole decision",
            Self::FirstToken => "first token",
            Self::Release => "release",
        }
    }

    fn of(self, step: &Step) -> Option<Duration> {
        match self {
            Self::Hash => Some(step.parts.hash),
            Self::Lookup => Some(step.parts.lookup),
            Self::Decide => Some(step.parts.decide),
            Self::Whole => Some(step.parts.whole()),
            Self::FirstToken => step.first_token,
            Self::Release => step.release,
        }
    }
}

// === impl Runner ===

impl<'a, C: Contestant> Runner<'a, C> {
    /// The workers hold what the workload stores, and have so many attempts in flight together.
    pub(crate) fn new(workload: &'a Workload, in_flight: usize) -> Result<Self> {
        let contestant: C = prepared(workload.workers, Callers::One, &workload.stores)?;
        let mut flights = Flights::new(in_flight);
        let mut traffic = Traffic::new(workload);
        fill(&contestant, &mut flights, &mut traffic)?;
        Ok(Self { contestant, flights, traffic })
    }
}

impl<C: Contestant> Contest for Runner<'_, C> {
    fn phase(&mut self) -> Result<Vec<Spread>> {
        let start = Instant::now();
        let mut steps = Vec::new();
        while start.elapsed() < LONGEST_PHASE {
            let Some(request) = self.traffic.next() else { break };
            steps.push(self.flights.step(&self.contestant, &request)?);
        }
        Ok(Stage::ALL.map(|stage| Spread::of(steps.iter().filter_map(|step| stage.of(step)))).to_vec())
    }

    fn loads(&self) -> Result<(usize, usize)> {
        let loads = self.contestant.loads();
        let (counted, placed) = (loads.iter().sum::<usize>(), self.flights.count());
        ensure!(counted == placed, "{} counts {counted} attempts in flight of {placed}", C::NAME);
        Ok((loads.iter().copied().max().unwrap_or(0), loads.iter().copied().min().unwrap_or(0)))
    }
}

// === impl Spread ===

impl Spread {
    fn of(times: impl Iterator<Item = Duration>) -> Self {
        let sorted = sorted_nanoseconds(times);
        Self { half: percentile(&sorted, 0.5) / 1e3, p99: percentile(&sorted, 0.99) / 1e3 }
    }
}

/// A contestant that knows what the events say.
pub(crate) fn prepared<C: Contestant>(workers: usize, callers: Callers, events: &[Event]) -> Result<C> {
    const FLUSH_EVERY: usize = 4096;
    let contestant = C::new(workers, callers)?;
    for some in events.chunks(FLUSH_EVERY) {
        some.iter().for_each(|event| contestant.apply(C::event(event)));
        contestant.flush();
    }
    Ok(contestant)
}

/// Places requests until there are enough.
pub(crate) fn fill<C: Contestant>(
    contestant: &C,
    flights: &mut Flights<C>,
    traffic: &mut Traffic<'_>,
) -> Result<()> {
    while !flights.are_enough()
        && let Some(request) = traffic.next()
    {
        flights.step(contestant, &request)?;
    }
    Ok(())
}

pub(crate) fn sorted_nanoseconds(times: impl Iterator<Item = Duration>) -> Vec<u32> {
    let nanoseconds = |time: Duration| u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
    let mut sorted: Vec<u32> = times.map(nanoseconds).collect();
    sorted.sort_unstable();
    sorted
}
