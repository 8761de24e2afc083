//! A whole decision beside Dynamo's: from a prompt's tokens to an attempt that is booked, in the same run.
//!
//! Both are given the same events and the same requests, in the same order, and have as many attempts in flight. Phases
//! alternate, so that a disturbance of the machine falls on both.

mod contestant;
mod dynamo;
mod flights;
mod kvroute;
mod paced;
mod report;
mod steady;
mod traffic;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use crate::index::workload::Workload;
use crate::machine;
use contestant::Contestant;
use dynamo::Dynamo;
use kvroute::Kvroute;
use paced::{Pace, Waits};
use report::{PacedCell, SteadyCell};
use steady::{Contest, Runner};

/// What a whole decision costs: hashing, lookup, cost of every worker, pick, booking; beside `dynamo-kv-router`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DecideArgs {
    /// Prompt lengths in blocks of 16 tokens.
    #[arg(long, value_delimiter = ',', default_value = "64,512")]
    prompts: Vec<usize>,
    /// Fleet sizes.
    #[arg(long, value_delimiter = ',', default_value = "4,26,1000")]
    workers: Vec<usize>,
    /// Attempts in flight on each worker.
    #[arg(long, default_value_t = 8)]
    in_flight: usize,
    /// Repetitions; the tables show their median.
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// Decisions a second of the paced runs; 0 for none.
    #[arg(long, default_value_t = 5000.0)]
    rate: f64,
    /// Seconds of each paced run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Leave Dynamo out.
    #[arg(long)]
    alone: bool,
    /// Seed of the workload.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Also writes every repetition's figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// One that takes part.
#[derive(Clone, Copy)]
struct Entrant {
    name: &'static str,
    start: for<'a> fn(&'a Workload, usize) -> Result<Box<dyn Contest + 'a>>,
    paced: fn(&Pace<'_>) -> Result<Waits>,
}

/// Prompt length in blocks and fleet size of the paced runs.
const PACED: [(usize, usize); 2] = [(34, 26), (64, 4)];

/// Blocks that the workers hold together, unless that is less than some prompts each.
const ENTRIES: usize = 400_000;

/// So many prompts each worker holds at least, roughly.
const PROMPTS_A_WORKER: usize = 4;

/// Runs every cell and prints its table as soon as it is known.
pub(crate) fn run(args: &DecideArgs) -> Result<()> {
    println!("{}", machine::describe());
    let entrants = entrants(args.alone);
    let (mut steady, mut paced) = (Vec::new(), Vec::new());
    for &workers in &args.workers {
        for &prompt in &args.prompts {
            let cell = steady_cell(args, &entrants, prompt, workers)?;
            println!("\n{cell}");
            steady.push(cell.as_json());
        }
    }
    for (prompt, workers) in PACED.into_iter().filter(|_| args.rate > 0.0) {
        let cell = paced_cell(args, &entrants, prompt, workers)?;
        println!("\n{cell}");
        paced.push(cell.as_json());
    }
    let Some(path) = &args.json else { return Ok(()) };
    let document = json!({ "machine": machine::describe(), "steady": steady, "paced": paced });
    std::fs::write(path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn entrants(is_alone: bool) -> Vec<Entrant> {
    let mut entrants = vec![Entrant::of::<Kvroute>(), Entrant::of::<Dynamo>()];
    entrants.truncate(if is_alone { 1 } else { 2 });
    entrants
}

/// One cell of decisions one after the other.
fn steady_cell(args: &DecideArgs, entrants: &[Entrant], prompt: usize, workers: usize) -> Result<SteadyCell> {
    let in_flight = workers * args.in_flight;
    let workload = workload(args, prompt, workers);
    let names = entrants.iter().map(|entrant| entrant.name).collect();
    let mut cell = SteadyCell::new(prompt, workers, in_flight, names);
    let mut contests = Vec::new();
    for entrant in entrants {
        contests.push((entrant.start)(&workload, in_flight)?);
    }
    for (number, contest) in contests.iter_mut().enumerate() {
        contest.phase()?;
        cell.note_loads(number, contest.loads()?);
    }
    for _ in 0..args.reps {
        for (number, contest) in contests.iter_mut().enumerate() {
            cell.note(number, &contest.phase()?);
        }
    }
    for contest in &contests {
        contest.loads()?;
    }
    Ok(cell)
}

/// One cell of decisions at a given rate.
fn paced_cell(args: &DecideArgs, entrants: &[Entrant], prompt: usize, workers: usize) -> Result<PacedCell> {
    let workload = workload(args, prompt, workers);
    let pace = Pace {
        workload: &workload,
        in_flight: workers * args.in_flight,
        rate: args.rate,
        time: Duration::from_secs_f64(args.seconds),
    };
    let mut cell = PacedCell::new(prompt, workers, entrants.iter().map(|entrant| entrant.name).collect());
    for _ in 0..args.reps {
        for (number, entrant) in entrants.iter().enumerate() {
            cell.note(number, (entrant.paced)(&pace)?);
        }
    }
    Ok(cell)
}

/// Enough different requests that those in flight are mostly not the same.
fn workload(args: &DecideArgs, prompt: usize, workers: usize) -> Workload {
    let entries = ENTRIES.max(workers * prompt * PROMPTS_A_WORKER);
    let requests = (2 * workers * args.in_flight).max(4096);
    Workload::chat_with_queries(prompt, workers, entries, requests, args.seed)
}

// === impl Entrant ===

impl Entrant {
    const fn of<C: Contestant + 'static>() -> Self {
        Self {
            name: C::NAME,
            start: |workload, in_flight| Ok(Box::new(Runner::<C>::new(workload, in_flight)?)),
            paced: |pace| pace.run::<C>(),
        }
    }
}

#[cfg(test)]
mod tests;
