//! The phases of a comparison, each for one index.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::contestant::Index;
use super::workload::{Event, Workload, blocks_of};
use crate::heap::HeapCount;
use crate::stopwatch::Stopwatch;

const WARM_UP: Duration = Duration::from_millis(60);
/// Some indexes take a hundred times as long as others for a lookup; this is enough calls for any.
const LONGEST_PHASE: Duration = Duration::from_millis(300);

/// How long one lookup takes, in nanoseconds. Reading the clock twice is part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) half: f64,
    pub(crate) p99: f64,
}

/// Lookups while another thread stored as fast as it could.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    pub(crate) latency: Latency,
    /// How long the stores took.
    pub(crate) storing: Duration,
}

/// An index that disagrees with the model.
#[derive(Clone, Debug)]
pub(crate) struct Disagreement {
    pub(crate) worker: usize,
    pub(crate) found: u32,
    pub(crate) expected: u32,
}

/// One index in the middle of its comparison.
pub(crate) struct Runner<I: Index> {
    index: I,
    writer: I::Writer,
    queries: Vec<I::Query>,
    answer: I::Answer,
    found: Vec<u32>,
}

/// A [`Runner`] of any index.
pub(crate) trait Contest {
    /// Million blocks a second.
    fn apply(&mut self, events: &[Event]) -> f64;
    fn lookups(&mut self) -> Latency;
    /// As `apply`, and the lookups that another thread made meanwhile.
    fn busy(&mut self, events: &[Event]) -> Option<(f64, Latency)>;
    fn check(&mut self, query: usize, expected: &[u32]) -> Option<Disagreement>;
}

/// How to begin with one index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) start: fn(&Workload) -> Box<dyn Contest>,
    /// Live bytes of an index that holds all the stores.
    pub(crate) bytes: fn(&Workload) -> f64,
}

// === impl Contestant ===

impl Contestant {
    pub(crate) const fn of<I: Index + 'static>() -> Self {
        Self { name: I::NAME, start: |workload| Box::new(Runner::<I>::new(workload)), bytes: live_bytes::<I> }
    }
}

// === impl Runner ===

impl<I: Index> Runner<I> {
    fn new(workload: &Workload) -> Self {
        let index = I::new(workload.workers);
        let writer = index.writer();
        let queries = workload.queries.iter().map(|query| I::query(query)).collect();
        let found = vec![0; workload.workers];
        Self { index, writer, queries, answer: I::Answer::default(), found }
    }
}

impl<I: Index> Contest for Runner<I> {
    fn apply(&mut self, events: &[Event]) -> f64 {
        let own: Vec<I::Event> = events.iter().map(I::event).collect();
        let watch = Stopwatch::start();
        for event in own {
            self.index.apply(&mut self.writer, event);
        }
        self.index.flush();
        million_a_second(blocks_of(events), watch.worked())
    }

    fn lookups(&mut self) -> Latency {
        let calls = (self.queries.len() * 3).max(6000);
        let within = |time| {
            let start = Instant::now();
            timed_lookups(&self.index, &self.queries, calls, || start.elapsed() >= time)
        };
        within(WARM_UP);
        within(LONGEST_PHASE)
    }

    fn busy(&mut self, events: &[Event]) -> Option<(f64, Latency)> {
        let own = events.iter().map(I::event).collect();
        let busy = self.index.busy(&mut self.writer, own, &self.queries)?;
        Some((million_a_second(blocks_of(events), busy.storing), busy.latency))
    }

    fn check(&mut self, query: usize, expected: &[u32]) -> Option<Disagreement> {
        self.index.find(&self.queries[query], &mut self.answer);
        self.found.fill(0);
        let found = &mut self.found;
        I::each_prefix(&self.answer, expected.len(), |worker, blocks| found[worker as usize] = blocks);
        let worker = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
        Some(Disagreement { worker, found: found[worker], expected: expected[worker] })
    }
}

/// Stores on this thread and looks up on another until the last store is done.
pub(crate) fn look_up_while_storing<I>(
    index: &I,
    writer: &mut I::Writer,
    events: Vec<I::Event>,
    queries: &[I::Query],
) -> Busy
where
    I: Index + Sync,
    I::Query: Sync,
{
    let (has_started, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let lookups = scope.spawn(|| {
            index.find(&queries[0], &mut I::Answer::default());
            has_started.store(true, Relaxed);
            timed_lookups(index, queries, usize::MAX, || is_done.load(Relaxed))
        });
        while !has_started.load(Relaxed) {
            std::thread::yield_now();
        }
        let watch = Stopwatch::start();
        for event in events {
            index.apply(writer, event);
        }
        index.flush();
        let storing = watch.worked();
        is_done.store(true, Relaxed);
        let latency = lookups.join().unwrap_or(Latency { half: f64::NAN, p99: f64::NAN });
        Busy { latency, storing }
    })
}

/// Looks up one query after the other, until so many calls were made or there is a reason to stop.
fn timed_lookups<I: Index>(
    index: &I,
    queries: &[I::Query],
    calls: usize,
    mut is_over: impl FnMut() -> bool,
) -> Latency {
    const ASKED_EVERY: usize = 64;
    let mut answer = I::Answer::default();
    let mut nanoseconds = Vec::with_capacity(calls.min(1 << 20));
    for (call, query) in queries.iter().cycle().take(calls).enumerate() {
        if call % ASKED_EVERY == 0 && is_over() {
            break;
        }
        black_box(I::read(query));
        let start = Instant::now();
        index.find(black_box(query), &mut answer);
        nanoseconds.push(start.elapsed().as_nanos() as u32);
        black_box(&answer);
    }
    nanoseconds.sort_unstable();
    Latency { half: percentile(&nanoseconds, 0.5), p99: percentile(&nanoseconds, 0.99) }
}

/// The value that so large a share of the others does not exceed; no number where there is none.
pub(crate) fn percentile(sorted: &[u32], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).ceil() as usize).map_or(f64::NAN, |value| f64::from(*value))
}

fn million_a_second(blocks: usize, time: Duration) -> f64 {
    blocks as f64 / time.as_secs_f64() / 1e6
}

/// Live heap bytes of an index that holds everything. It is flushed often, so that the room of a queue that ran full
/// is not counted.
fn live_bytes<I: Index>(workload: &Workload) -> f64 {
    const FLUSH_EVERY: usize = 256;
    let count = HeapCount::start();
    let index = I::new(workload.workers);
    let mut writer = index.writer();
    for (number, event) in workload.stores.iter().enumerate() {
        index.apply(&mut writer, I::event(event));
        if number % FLUSH_EVERY == 0 {
            index.flush();
        }
    }
    index.flush();
    let bytes = count.live();
    drop((index, writer));
    wait_until_freed(&count);
    bytes as f64
}

/// Some indexes free what they held on a thread of their own; the next count must not see that.
fn wait_until_freed(count: &HeapCount) {
    const PAUSE: Duration = Duration::from_millis(50);
    for _ in 0..60 {
        let before = count.live();
        std::thread::sleep(PAUSE);
        if count.live() == before {
            return;
        }
    }
}
