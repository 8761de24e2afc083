//! What a request's telemetry costs: as the router tells it, and as it would with labels looked up at each update.
//!
//! Both are told the same requests, keep the same families and are compared series by series before anything is timed.
//! Apart from that: what it costs to give the tokens of a cold prompt their reasons.

mod agreement;
mod clock;
mod contestant;
mod kvroute;
mod measure;
mod plain;
mod reasons;
mod report;
mod story;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::machine;
use contestant::Telemetry;
use kvroute::Kvroute;
use measure::{Cell, Task};
use plain::Plain;
use reasons::{Plan, Reasons};
use report::CellReport;
use story::Story;

/// What a whole request's telemetry costs, beside a plain use of the `prometheus` crate; and the reasons of a cold prompt.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TelemetryArgs {
    /// Threads that tell at the same time.
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Models, each with counters of its own.
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    models: Vec<usize>,
    /// What each thread does besides after each request, in microseconds.
    #[arg(long, value_delimiter = ',', default_value = "0,50")]
    other_work: Vec<u64>,
    /// Chunks of a stream.
    #[arg(long, default_value_t = 100)]
    chunks: u32,
    /// Requests of one measurement on each thread.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Blocks that the workers hold together while reasons are looked for.
    #[arg(long, default_value_t = 400_000)]
    entries: usize,
    /// Lengths of cold prompts in blocks.
    #[arg(long, value_delimiter = ',', default_value = "34,417,834")]
    prompts: Vec<usize>,
    /// Repetitions; the tables show their median.
    #[arg(long, default_value_t = 9)]
    reps: usize,
    /// Seed of the requests.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Also writes every repetition's figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Requests that differ, told in turn.
const STORIES: usize = 64;

/// Blocks that are looked for, by the requests of the other measurements, which take as long.
const LOOKS_A_REQUEST: usize = 100;

/// Runs every cell and prints its table as soon as it is known.
pub(crate) fn run(args: &TelemetryArgs) -> Result<()> {
    println!("{}", machine::describe());
    let stories = Story::several(STORIES, args.seed);
    let compared = agreement::check(&stories, args.chunks)?;
    println!("both tell the same: {compared} series that are not zero");
    let mut cells = Vec::new();
    for cell in all_cells(args) {
        let report = measured(args, &stories, cell)?;
        println!("\nload average {}\n{report}", machine::load_average());
        cells.push(report.as_json());
    }
    let reasons = reasons(args)?;
    println!("\nload average {}\n{}", machine::load_average(), report::of_reasons(&reasons));
    let Some(path) = &args.json else { return Ok(()) };
    let reasons: Vec<Value> = reasons.iter().map(Reasons::as_json).collect();
    let document = json!({ "machine": machine::describe(), "cells": cells, "reasons": reasons });
    std::fs::write(path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn all_cells(args: &TelemetryArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &threads in &args.threads {
        for &micros in &args.other_work {
            let other_work = Duration::from_micros(micros);
            cells.extend(args.models.iter().map(|&models| Cell { threads, models, other_work }));
        }
    }
    cells
}

/// One repetition measures every task for both, one after the other.
fn measured(args: &TelemetryArgs, stories: &[Story], cell: Cell) -> Result<CellReport> {
    let (own, other) = (Kvroute::new(cell.models)?, Plain::new(cell.models)?);
    let mut report = CellReport::new(cell, args.chunks);
    for _ in 0..args.reps.max(1) {
        report.note_clock(measure::clock_reading(args.requests));
        for task in Task::all(args.chunks) {
            let requests = (args.requests / task.weight() / cell.weight()).max(1);
            report.note(task, 0, &measure::cost(&own, cell, task, stories, requests));
            report.note(task, 1, &measure::cost(&other, cell, task, stories, requests));
        }
    }
    Ok(report)
}

fn reasons(args: &TelemetryArgs) -> Result<Vec<Reasons>> {
    let repetitions = args.reps.max(1);
    let measure = |blocks| {
        let plan =
            Plan { blocks, entries: args.entries, looks: args.requests * LOOKS_A_REQUEST, seed: args.seed };
        Reasons::measure(plan, repetitions)
    };
    args.prompts.iter().copied().map(measure).collect()
}

#[cfg(test)]
mod tests;
