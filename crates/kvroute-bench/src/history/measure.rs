//! How long lookups and completions take.
//!
//! Completions are timed in short samples, and only those count in which no thread waited for a core and all of them ran
//! side by side: on a machine that has other work the rest would tell of that.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use super::contestant::Remember;
use super::workload::{Prompts, fresh};
use crate::index::measure::{Latency, percentile};
use crate::random::Random;
use crate::stopwatch::Stopwatch;

/// Lookups of one measurement.
const LOOKUPS: usize = 40_000;
/// Most blocks of them all.
const BLOCKS_LOOKED_UP: usize = 6_000_000;
/// Blocks that a thread completes in one sample: some hundred microseconds of work.
const SAMPLE: usize = 1024;
/// So many times as many samples are taken as must count, at most.
const MOST_TRIES: usize = 20;
/// Share of a sample in which all of its threads must run.
const SIDE_BY_SIDE: f64 = 0.8;

/// What is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completions {
    AllNew,
    Duplicates,
}

/// Samples that count, and how many were taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampled {
    /// Million blocks a second of all threads together.
    pub(crate) rates: Vec<f64>,
    pub(crate) taken: usize,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    start: Instant,
    end: Instant,
    worked: Duration,
}

/// Full hits; the prompt's hashes are in the processor's cache, since a router has just computed them.
pub(crate) fn lookups(history: &impl Remember, prompts: &Prompts) -> Latency {
    let length = prompts[0].len();
    let count = LOOKUPS.min(BLOCKS_LOOKED_UP / length);
    let mut nanoseconds = Vec::with_capacity(count);
    for number in 0..count {
        let prompt = &prompts[number * 7919 % prompts.len()];
        black_box(prompt.iter().fold(0, |sum, hash| sum ^ hash.get()));
        let start = Instant::now();
        let known = history.known_prefix(black_box(prompt));
        nanoseconds.push(start.elapsed().as_nanos() as u32);
        assert_eq!(known, length, "a resident prompt is known");
    }
    nanoseconds.sort_unstable();
    Latency { half: percentile(&nanoseconds, 0.5), p99: percentile(&nanoseconds, 0.99) }
}

/// So many samples on so many threads that complete at the same time.
pub(crate) fn completions(
    history: &impl Remember,
    what: Completions,
    prompts: &Prompts,
    (threads, wanted): (usize, usize),
    random: &mut Random,
) -> Sampled {
    let mut sampled = Sampled::default();
    while sampled.rates.len() < wanted && sampled.taken < MOST_TRIES * wanted {
        let work: Vec<Prompts> = (0..threads).map(|_| sample_of(what, prompts, random)).collect();
        sampled.rates.extend(sample(history, &work));
        sampled.taken += 1;
    }
    sampled
}

fn sample_of(what: Completions, prompts: &Prompts, random: &mut Random) -> Prompts {
    let length = prompts[0].len();
    let count = SAMPLE.div_ceil(length);
    let one = |_| match what {
        Completions::AllNew => fresh(length, random),
        Completions::Duplicates => prompts[random.below(prompts.len())].clone(),
    };
    (0..count).map(one).collect()
}

/// Million blocks a second; `None` if it was disturbed.
fn sample(history: &impl Remember, work: &[Prompts]) -> Option<f64> {
    let ready = AtomicUsize::new(0);
    let complete = |prompts: &Prompts| {
        ready.fetch_add(1, SeqCst);
        while ready.load(SeqCst) < work.len() {
            spin_loop();
        }
        let watch = Stopwatch::start();
        let start = Instant::now();
        prompts.iter().for_each(|prompt| history.complete(prompt));
        let end = Instant::now();
        Turn { start, end, worked: watch.worked() }
    };
    let turns: Vec<Turn> = thread::scope(|scope| {
        let complete = &complete;
        let threads: Vec<_> = work.iter().map(|prompts| scope.spawn(move || complete(prompts))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let blocks: usize = work.iter().flatten().map(Vec::len).sum();
    let (first, last) =
        (turns.iter().map(|turn| turn.start).min()?, turns.iter().map(|turn| turn.end).max()?);
    let whole = (last - first).as_secs_f64();
    is_undisturbed(&turns, whole).then(|| blocks as f64 / whole / 1e6)
}

fn is_undisturbed(turns: &[Turn], whole: f64) -> bool {
    let mut took = turns.iter().map(|turn| (turn.end - turn.start, turn.worked));
    took.all(|(took, worked)| worked >= took && took.as_secs_f64() >= SIDE_BY_SIDE * whole)
}

/// Nanoseconds of a load from so much memory: one after the other, and independent ones. No lookup of a hash that stands
/// anywhere in it can be faster than the first, none of many hashes faster than the second, each.
pub(crate) fn loads(bytes: usize) -> [f64; 2] {
    const LOADS: usize = 400_000;
    const AT_ONCE: usize = 4000;
    let words: Vec<u64> = (0..bytes as u64 / 8).map(crate::random::mix).collect();
    let at = |number: u64| words[((u128::from(number) * words.len() as u128) >> 64) as usize];
    let mut fastest = [f64::INFINITY; 2];
    let mut number = 1;
    for round in 0..LOADS / AT_ONCE as usize {
        let start = Instant::now();
        for _ in 0..AT_ONCE {
            number = crate::random::mix(number ^ at(number));
        }
        let dependent = start.elapsed();
        let mut random = Random::new(round as u64);
        let start = Instant::now();
        number ^= (0..AT_ONCE).fold(0, |sum, _| sum ^ at(random.next()));
        let times = [dependent, start.elapsed()].map(|time| time.as_nanos() as f64 / AT_ONCE as f64);
        fastest = [0, 1].map(|which| f64::min(fastest[which], times[which]));
    }
    black_box(number);
    fastest
}
