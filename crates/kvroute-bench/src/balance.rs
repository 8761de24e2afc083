//! What each policy makes of a fleet: how even the work is, how much is reused, how long the first token takes.
//!
//! Engines, index and selector are the real ones in virtual time, so that an hour of traffic takes seconds and the same
//! seed prints the same table.

mod dice;
mod fleet;
mod longest_prefix;
mod plan;
mod record;
mod report;
mod weights;
mod workloads;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use kvroute_select::{CostWeights, Policy, PolicyOptions, policy};
use serde_json::json;

use fleet::Fleet;
use record::Figures;
use report::Outcome;
use weights::Setting;
use workloads::Workload;

/// Balance, reuse and time to first token of every policy on every workload, on simulated engines in virtual time.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct BalanceArgs {
    /// Only workloads whose names contain one of these.
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// Only policies whose names contain one of these. The bounds need all of them.
    #[arg(long, value_delimiter = ',')]
    policy: Vec<String>,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs with seeds from the first one on; the table shows their median and range.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Traffic of each workload, in times of what it is meant to be.
    #[arg(long, default_value_t = 1.0, value_parser = positive)]
    load: f64,
    /// A weight of the cost function, as NAME=VALUE by its name in the configuration.
    #[arg(long)]
    set: Vec<Setting>,
    /// Also writes every run's figures to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if (0.01..=100.0).contains(&load) => Ok(load),
        _ => Err(format!("{text} is no number from 0.01 to 100")),
    }
}

/// Plays every workload with every policy and prints its table as soon as it is known.
pub(crate) fn run(args: &BalanceArgs) -> Result<()> {
    let weights = Setting::apply(&args.set)?;
    let policies = chosen(&policy_names(), &args.policy, |name| name, "policy")?;
    let workloads = chosen(workloads::ALL, &args.workload, |workload| workload.name, "workload")?;
    let mut written = Vec::new();
    for workload in workloads {
        let outcomes = policies.iter().map(|name| outcome(args, &workload, name, weights));
        let outcomes = outcomes.collect::<Result<Vec<_>>>()?;
        println!("{}", report::table(&workload, &outcomes));
        written.push(report::as_json(&workload, &outcomes));
    }
    let Some(path) = &args.json else { return Ok(()) };
    let document = json!({
        "seed": args.seed,
        "seeds": args.seeds,
        "load": args.load,
        "weights": weights.clone().by_name().map(|(name, value)| json!({ "name": name, "value": *value })),
        "workloads": written,
    });
    std::fs::write(path, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn outcome(
    args: &BalanceArgs,
    workload: &Workload,
    name: &'static str,
    weights: CostWeights,
) -> Result<Outcome> {
    let runs = (args.seed..args.seed + args.seeds).map(|seed| {
        let plan = (workload.plan)(seed)?.at_load(args.load);
        let records = Fleet::play(&plan, policy_of(name)?, weights, seed)
            .with_context(|| format!("{} with {name}, seed {seed}", workload.name))?;
        let answering =
            (0..plan.workers).filter(|worker| plan.stuck.is_none_or(|stuck| stuck.worker != *worker));
        Ok(Figures::of(&records, answering))
    });
    Ok(Outcome { policy: name, runs: runs.collect::<Result<_>>()? })
}

/// Every policy that chooses by itself, and the one that the bounds name.
fn policy_names() -> Vec<&'static str> {
    let live = policy::NAMES.iter().copied().filter(|name| *name != "direct");
    live.chain([longest_prefix::NAME]).collect()
}

fn policy_of(name: &str) -> Result<Box<dyn Policy>> {
    match name {
        longest_prefix::NAME => Ok(Box::new(longest_prefix::LongestPrefix)),
        _ => Ok(policy::by_name(name, &PolicyOptions::default())?),
    }
}

fn chosen<T: Copy>(all: &[T], wanted: &[String], name: fn(&T) -> &'static str, kind: &str) -> Result<Vec<T>> {
    let is_wanted =
        |thing: &&T| wanted.is_empty() || wanted.iter().any(|part| name(thing).contains(part.as_str()));
    let chosen: Vec<T> = all.iter().filter(is_wanted).copied().collect();
    if chosen.is_empty() {
        let names: Vec<_> = all.iter().map(name).collect();
        bail!("no {kind} is called {}; there are {}", wanted.join(", "), names.join(", "));
    }
    Ok(chosen)
}
