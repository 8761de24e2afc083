//! How long it takes to tell requests, in nanoseconds a request.
//!
//! Threads that move the same counters cost each other time only while they run at the same time, and on a machine that
//! has other work they seldom do. So requests are told in short samples, and only those count in which no thread waited
//! for a core and all of them ran side by side.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use super::clock::{Clock, RealClock};
use super::contestant::{Answer, Telemetry};
use super::story::Story;
use crate::stopwatch::Stopwatch;

/// Who tells, and of how many models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) threads: usize,
    pub(crate) models: usize,
    /// What each thread does besides after each request.
    pub(crate) other_work: Duration,
}

/// What is timed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Stages,
    Decision,
    Attempt,
    /// The client's side of a whole answer.
    Answer,
    /// All of a request.
    Request(Answer),
}

// === impl Cell ===

impl Cell {
    /// How many times longer its requests take, roughly.
    pub(crate) const fn weight(self) -> usize {
        1 + self.other_work.as_micros() as usize
    }

    /// Keeps the core busy without touching memory. Returns how long that took.
    fn do_other_work(self) -> Duration {
        if self.other_work.is_zero() {
            return Duration::ZERO;
        }
        let start = Instant::now();
        loop {
            let passed = start.elapsed();
            if passed >= self.other_work {
                return passed;
            }
            spin_loop();
        }
    }
}

// === impl Task ===

impl Task {
    /// Every task; the stream of one chunk tells what the other chunks of a stream cost.
    pub(crate) fn all(chunks: u32) -> [Self; 7] {
        [
            Self::Stages,
            Self::Decision,
            Self::Attempt,
            Self::Answer,
            Self::Request(Answer::Whole),
            Self::Request(Answer::Stream(1)),
            Self::Request(Answer::Stream(chunks)),
        ]
    }

    /// How many times longer it takes than the others, roughly.
    pub(crate) const fn weight(self) -> usize {
        match self {
            Self::Request(Answer::Stream(chunks)) if chunks > 8 => chunks as usize / 8,
            _ => 1,
        }
    }

    fn tell<T: Telemetry>(self, telemetry: &T, model: usize, story: &Story, clock: &mut impl Clock) {
        match self {
            Self::Stages => telemetry.stages(clock),
            Self::Decision => telemetry.decision(model, story, clock),
            Self::Attempt => telemetry.attempt(model, story),
            Self::Answer => telemetry.answer(model, story, Answer::Whole, clock),
            Self::Request(answer) => telemetry.request(model, story, answer, clock),
        }
    }
}

/// The samples of one measurement that count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    /// Mean, in nanoseconds a request; not a number if none counts.
    pub(crate) nanoseconds: f64,
    pub(crate) undisturbed: usize,
    pub(crate) all: usize,
}

/// One thread's part of a sample.
#[derive(Clone, Copy, Debug)]
struct Turn {
    start: Instant,
    end: Instant,
    /// Without the time in which it waited for a core.
    worked: Duration,
    /// Of it, what was no telemetry.
    other: Duration,
}

/// Requests of one sample that a thread tells: less than a millisecond's work.
const SAMPLE: usize = 256;
/// So many times as many samples are taken as must count, at most.
const MOST_TRIES: usize = 4;
/// Share of a sample in which all of its threads must run.
const SIDE_BY_SIDE: f64 = 0.9;

/// Tells so many requests on each thread, sample by sample; more where too few samples count.
pub(crate) fn cost<T: Telemetry>(
    telemetry: &T,
    cell: Cell,
    task: Task,
    stories: &[Story],
    requests: usize,
) -> Sampled {
    let size = (SAMPLE / task.weight() / cell.weight()).clamp(1, requests);
    let wanted = requests.div_ceil(size);
    let mut counted = Vec::new();
    let mut all = 0;
    while counted.len() < wanted && all < MOST_TRIES * wanted {
        counted.extend(sample(telemetry, cell, task, stories, size));
        all += 1;
    }
    let nanoseconds = counted.iter().sum::<f64>() / counted.len() as f64;
    Sampled { nanoseconds, undisturbed: counted.len(), all }
}

/// Mean over all threads; each begins with another model, and tells every story once before, so that what it needs is in
/// its core's cache. `None` if it was disturbed.
fn sample<T: Telemetry>(
    telemetry: &T,
    cell: Cell,
    task: Task,
    stories: &[Story],
    requests: usize,
) -> Option<f64> {
    let ready = AtomicUsize::new(0);
    let tell = |thread: usize| {
        let offset = thread * cell.models.div_ceil(cell.threads);
        let mut clock = RealClock::start();
        let mut tell = |number: usize, story: &Story| {
            task.tell(telemetry, (number + offset) % cell.models, story, &mut clock);
        };
        stories.iter().enumerate().for_each(|(number, story)| tell(number, story));
        ready.fetch_add(1, SeqCst);
        while ready.load(SeqCst) < cell.threads {
            spin_loop();
        }
        let watch = Stopwatch::start();
        let start = Instant::now();
        let mut other = Duration::ZERO;
        for (number, story) in stories.iter().cycle().take(requests).enumerate() {
            tell(number, story);
            other += cell.do_other_work();
        }
        Turn { start, end: Instant::now(), worked: watch.worked(), other }
    };
    let turns: Vec<Turn> = thread::scope(|scope| {
        let tell = &tell;
        let threads: Vec<_> = (0..cell.threads).map(|thread| scope.spawn(move || tell(thread))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let times = turns.iter().map(|turn| nanoseconds_each(turn.took() - turn.other, requests));
    is_undisturbed(&turns).then(|| times.sum::<f64>() / cell.threads as f64)
}

/// Whether every thread ran throughout, and all of them at the same time.
fn is_undisturbed(turns: &[Turn]) -> bool {
    let (first, last) = (turns.iter().map(|turn| turn.start).min(), turns.iter().map(|turn| turn.end).max());
    let (begin, end) = (turns.iter().map(|turn| turn.start).max(), turns.iter().map(|turn| turn.end).min());
    let (Some(all), Some(common)) = (length(first, last), length(begin, end)) else { return false };
    let is_long = |part: Duration, of: Duration| part.as_secs_f64() >= SIDE_BY_SIDE * of.as_secs_f64();
    is_long(common, all) && turns.iter().all(|turn| turn.worked >= turn.took())
}

fn length(start: Option<Instant>, end: Option<Instant>) -> Option<Duration> {
    end?.checked_duration_since(start?)
}

/// What one look at the clock takes, which is part of everything else.
pub(crate) fn clock_reading(looks: usize) -> f64 {
    let mut clock = RealClock::start();
    let watch = Stopwatch::start();
    for _ in 0..looks {
        black_box(clock.elapsed());
    }
    nanoseconds_each(watch.worked(), looks)
}

// === impl Turn ===

impl Turn {
    fn took(&self) -> Duration {
        self.end - self.start
    }
}

pub(crate) fn nanoseconds_each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e9 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds of start, end, and work.
    fn are_undisturbed(turns: &[(u64, u64, u64)]) -> bool {
        let zero = Instant::now();
        let turn = |&(start, end, worked): &(u64, u64, u64)| Turn {
            start: zero + Duration::from_millis(start),
            end: zero + Duration::from_millis(end),
            worked: Duration::from_millis(worked),
            other: Duration::ZERO,
        };
        is_undisturbed(&turns.iter().map(turn).collect::<Vec<_>>())
    }

    #[test]
    fn only_threads_that_run_side_by_side_without_a_pause_count() {
        assert!(are_undisturbed(&[(0, 100, 100)]));
        assert!(are_undisturbed(&[(0, 100, 100), (3, 102, 100)]));
        assert!(!are_undisturbed(&[(0, 100, 100), (100, 200, 100)]));
        assert!(!are_undisturbed(&[(0, 100, 100), (40, 140, 100)]));
        assert!(!are_undisturbed(&[(0, 100, 60), (0, 100, 100)]));
    }
}
