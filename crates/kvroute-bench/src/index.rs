//! The index beside published ones: the same events and the same lookups, in the same run.

mod chain;
mod comparison;
pub(crate) mod contestant;
pub(crate) mod dynamo;
pub(crate) mod figures;
pub(crate) mod kvroute;
pub(crate) mod measure;
mod model;
pub(crate) mod workload;

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::machine;
use crate::table::{Table, three_digits};
use comparison::{Comparison, Plan};
use figures::{Cell, Quantity};

/// Lookups, stores, removals and memory of the index, beside those of `dynamo-kv-router` and `kv-index`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct IndexArgs {
    /// Prompt lengths in blocks.
    #[arg(long, value_delimiter = ',', default_value = "4,34,417,834")]
    prompts: Vec<usize>,
    /// Fleet sizes.
    #[arg(long, value_delimiter = ',', default_value = "26,1000")]
    workers: Vec<usize>,
    /// Blocks that the workers hold together.
    #[arg(long, default_value_t = 400_000)]
    entries: usize,
    /// Repetitions; the table shows their median.
    #[arg(long, default_value_t = 5)]
    reps: usize,
    /// Only compare with indexes whose names contain one of these; "none" for nobody.
    #[arg(long, value_delimiter = ',')]
    against: Vec<String>,
    /// Seed of the workload.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Also writes every repetition's figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs every cell and prints its table as soon as it is known.
pub(crate) fn run(args: &IndexArgs) -> Result<()> {
    println!("{}", machine::describe());
    let mut written = Vec::new();
    for &workers in &args.workers {
        for &prompt in &args.prompts {
            let comparison = Comparison::run(Plan {
                cell: Cell { prompt, workers },
                entries: args.entries,
                repetitions: args.reps,
                seed: args.seed,
                against: &args.against,
            })?;
            println!("\n{}", report(&comparison, args.reps));
            written.push(as_json(&comparison));
        }
    }
    let Some(path) = &args.json else { return Ok(()) };
    let document = json!({ "machine": machine::describe(), "cells": written });
    std::fs::write(path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn report(comparison: &Comparison, repetitions: usize) -> String {
    let Cell { prompt, workers } = comparison.cell;
    let names = comparison.contestants.iter().map(|contestant| contestant.name);
    let header = std::iter::once("").chain(names).chain(["x best", "goal", "reached"]);
    let mut table = Table::new(1, header);
    for quantity in Quantity::ALL {
        table.push(row(comparison, quantity));
    }
    format!(
        "{prompt}-block prompts, {workers} workers, {} entries, {} distinct blocks, median of {repetitions}; \
         every index agrees with the model\n{table}",
        comparison.entries, comparison.distinct
    )
}

fn row(comparison: &Comparison, quantity: Quantity) -> Vec<String> {
    let own = comparison.figure(0, quantity);
    let ratio = quantity.ratio(own, comparison.best_other(quantity));
    let goal = quantity.goal(comparison.cell);
    let reached = goal.map(|goal| if goal.is_reached(own, ratio) { "yes" } else { "NO" });
    let figures =
        (0..comparison.contestants.len()).map(|number| three_digits(comparison.figure(number, quantity)));
    std::iter::once(quantity.name().to_owned())
        .chain(figures)
        .chain([
            three_digits(ratio),
            goal.map(figures::Goal::describe).unwrap_or_default(),
            reached.unwrap_or_default().to_owned(),
        ])
        .collect()
}

fn as_json(comparison: &Comparison) -> Value {
    let of = |number: usize| {
        let figures = Quantity::ALL
            .map(|quantity| (quantity.name().to_owned(), json!(comparison.repetitions(number, quantity))));
        serde_json::Map::from_iter(figures)
    };
    let indexes: serde_json::Map<String, Value> = comparison
        .contestants
        .iter()
        .enumerate()
        .map(|(number, contestant)| (contestant.name.to_owned(), Value::Object(of(number))))
        .collect();
    json!({
        "prompt_blocks": comparison.cell.prompt,
        "workers": comparison.cell.workers,
        "entries": comparison.entries,
        "distinct": comparison.distinct,
        "indexes": indexes,
    })
}
