//! The history of computed prefixes beside one of standard parts: the same prompts, in the same run.

mod contestant;
mod measure;
mod plain;
mod report;
mod router;
mod workload;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use kvroute_history::History;
use serde_json::{Value, json};

use crate::heap::HeapCount;
use crate::index::figures::median;
use crate::machine;
use crate::random::Random;
use contestant::Remember;
use measure::Completions;
use plain::PlainHistory;
use report::{LengthReport, Memory, Quantity};
use workload::{Fill, Prompts};

/// Lookups, completions and memory of the history, beside 64 hash sets with one queue.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct HistoryArgs {
    /// Prompt lengths in blocks.
    #[arg(long, value_delimiter = ',', default_value = "4,34,417,834")]
    prompts: Vec<usize>,
    /// Blocks that are resident.
    #[arg(long, default_value_t = 8_388_608)]
    entries: usize,
    /// Samples of completions in each repetition.
    #[arg(long, default_value_t = 25)]
    samples: usize,
    /// Repetitions; the tables show their median.
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// Seed of the prompts.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Also writes every repetition's figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    router: router::RouterArgs,
}

/// What is timed by itself.
#[derive(Clone, Copy, Debug)]
enum Task {
    LookUp,
    /// So many threads complete.
    Complete(Completions, usize, Quantity),
}

/// What asks for prompts that are resident.
const ASKED: [Task; 3] = [
    Task::LookUp,
    Task::Complete(Completions::Duplicates, 1, Quantity::Duplicates),
    Task::Complete(Completions::Duplicates, 2, Quantity::DuplicatesOnTwo),
];

const NEW: [Task; 2] = [
    Task::Complete(Completions::AllNew, 1, Quantity::New),
    Task::Complete(Completions::AllNew, 2, Quantity::NewOnTwo),
];

/// Both histories, full.
#[derive(Debug)]
struct Pair {
    own: History,
    other: PlainHistory,
}

/// Runs everything and prints the tables.
pub(crate) fn run(args: &HistoryArgs) -> Result<()> {
    println!("{}", machine::describe());
    let figures = match args.router.router {
        true => router::run(&args.router, &args.prompts)?,
        false => compared(args)?,
    };
    let Some(path) = &args.json else { return Ok(()) };
    let document = json!({ "machine": machine::describe(), "figures": figures });
    std::fs::write(path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn compared(args: &HistoryArgs) -> Result<Value> {
    let mut random = Random::new(args.seed);
    let (pair, memory) = filled(args, &mut random);
    let mut reports: Vec<LengthReport> =
        args.prompts.iter().map(|blocks| LengthReport::new(*blocks)).collect();
    for repetition in 0..args.reps.max(1) {
        let fill = Fill::new(args.entries, &args.prompts, &mut random);
        fill.teach(&pair.own);
        fill.teach(&pair.other);
        agree(&pair, &fill)?;
        // What is all new comes last, since it pushes out what is looked up.
        for tasks in [ASKED.as_slice(), NEW.as_slice()] {
            for (report, prompts) in reports.iter_mut().zip(&fill.kept) {
                let order = [repetition % 2, 1 - repetition % 2];
                measure(&pair, (report, prompts), (tasks, order), args.samples, &mut random);
            }
        }
    }
    print(args, &reports, &memory);
    let lengths: Vec<_> = reports.iter().map(LengthReport::as_json).collect();
    let bytes = json!({ "allocated": memory.allocated, "resident": memory.resident });
    Ok(json!({ "entries": args.entries, "bytes_an_entry": bytes, "lengths": lengths }))
}

fn print(args: &HistoryArgs, reports: &[LengthReport], memory: &Memory) {
    let [dependent, independent] = measure::loads(14 * args.entries).map(crate::table::three_digits);
    println!(
        "{} blocks resident, median of {}; load average {}; a load from as much memory takes {dependent} ns, one of many \
         {independent} ns at best\n",
        args.entries,
        args.reps,
        machine::load_average()
    );
    reports.iter().for_each(|report| println!("{report}"));
    println!("{memory}");
}

/// Fills both for the first time, and counts what that takes.
fn filled(args: &HistoryArgs, random: &mut Random) -> (Pair, Memory) {
    let fill = Fill::new(args.entries + args.entries / 8, &args.prompts, random);
    let mut memory = Memory::default();
    let own = counted(&fill, args.entries, 0, &mut memory);
    let other = counted(&fill, args.entries, 1, &mut memory);
    (Pair { own, other }, memory)
}

fn counted<H: Remember>(fill: &Fill, entries: usize, contestant: usize, memory: &mut Memory) -> H {
    let before = machine::resident_bytes();
    let count = HeapCount::start();
    let history = H::with_capacity(entries);
    fill.teach(&history);
    let held = history.len() as f64;
    memory.allocated[contestant] = count.live() as f64 / held;
    let resident = before.zip(machine::resident_bytes()).map(|(before, after)| (after - before) as f64);
    memory.resident[contestant] = resident.map_or(f64::NAN, |bytes| bytes / held);
    history
}

/// A run in which one of them is wrong ends here.
fn agree(pair: &Pair, fill: &Fill) -> Result<()> {
    for prompt in fill.kept.iter().flatten() {
        let known = [Remember::known_prefix(&pair.own, prompt), pair.other.known_prefix(prompt)];
        if known != [prompt.len(); 2] {
            bail!("of {} blocks {known:?} are known", prompt.len());
        }
    }
    Ok(())
}

/// One after the other, and another one first in every other repetition.
fn measure(
    pair: &Pair,
    (report, prompts): (&mut LengthReport, &Prompts),
    (tasks, order): (&[Task], [usize; 2]),
    samples: usize,
    random: &mut Random,
) {
    for &task in tasks {
        for contestant in order {
            match contestant {
                0 => note(&pair.own, (report, contestant), (task, prompts, samples), random),
                _ => note(&pair.other, (report, contestant), (task, prompts, samples), random),
            }
        }
    }
}

fn note(
    history: &impl Remember,
    (report, contestant): (&mut LengthReport, usize),
    (task, prompts, samples): (Task, &Prompts, usize),
    random: &mut Random,
) {
    match task {
        Task::LookUp => {
            let latency = measure::lookups(history, prompts);
            report.note(Quantity::LookupHalf, contestant, latency.half / 1000.0);
            report.note(Quantity::LookupP99, contestant, latency.p99 / 1000.0);
        }
        Task::Complete(what, threads, quantity) => {
            let sampled = measure::completions(history, what, prompts, (threads, samples), random);
            report.note(quantity, contestant, median(&sampled.rates));
            report.note_samples(sampled.rates.len(), sampled.taken);
        }
    }
}

#[cfg(test)]
mod tests;
