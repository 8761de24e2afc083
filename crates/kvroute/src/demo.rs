//! `kvroute demo`: what routing by KV cache saves, measured on real sockets in one process.
//!
//! Each policy meets the same workload in front of cold engines of its own, one after the other. The funnel is
//! read from the router's metrics over HTTP, and the engines' own count stands beside it: the demo shows what
//! an operator would see, and proves that it is true.

mod client;
mod conversations;
mod driver;
mod flags;
mod fleet;
mod funnel;
mod json;
mod losses;
mod outcome;
mod pace;
mod plan;
mod progress;
mod recording;
mod run;
mod scrape;
mod sse;
mod table;
mod view;

use std::path::Path;
use std::sync::Arc;

use kvroute_replay::TokenRange;
use kvroute_sim::{PromptEncoder, TokenizerEncoder};

pub(crate) use flags::DemoFlags;

use self::fleet::Fleet;
use self::outcome::Outcome;
use self::plan::Plan;
use self::view::View;
use crate::failure::Failure;
use crate::output;
use crate::signals::StopSignals;
use crate::tokenizer;

/// What every run starts its fleet with.
struct Stage<'a> {
    plan: &'a Plan,
    tokenizer: &'a Path,
    encoder: Arc<dyn PromptEncoder>,
}

/// Runs every policy, prints the result, and serves on until Ctrl-C unless told otherwise.
pub(crate) async fn run(flags: DemoFlags) -> Result<(), Failure> {
    let encoder = tokenizer::demo_tokenizer()?;
    let plan = Plan::new(&flags, trace_ids(&encoder)?)?;
    let mut signals = StopSignals::listen()?;
    let folder = tokenizer::demo_folder()?;
    let stage = Stage { plan: &plan, tokenizer: folder.path(), encoder: Arc::new(encoder) };
    let mut view = View::new();
    let stays = !flags.once && !flags.json;
    // Whatever is going on, start-up too, it goes with this process: a signal waits for none of it.
    let measured = tokio::select! {
        measured = stage.measure(stays, &mut view) => measured,
        signal = signals.next() => Err(Failure::Failed(format!("{signal}: stopped before the runs were over"))),
    };
    view.end_run();
    let (outcomes, last_fleet) = measured?;
    print(&flags, &plan, &outcomes)?;
    if let Some(fleet) = last_fleet {
        stay(fleet, &mut signals).await;
    }
    succeed_without_errors(&outcomes)
}

/// Ids that prompts of a trace are drawn from: all but the special ones, which stand behind the learnt ones.
fn trace_ids(encoder: &TokenizerEncoder) -> Result<TokenRange, Failure> {
    let words = encoder.plain_ids();
    let (first, last) = (words.iter().min(), words.iter().max());
    let range = first.zip(last).map_or(0..0, |(first, last)| *first..*last + 1);
    TokenRange::new(range).map_err(|error| Failure::Failed(error.to_string()))
}

fn introduction(plan: &Plan, policy: &str, fleet: &Fleet) -> String {
    format!(
        "{policy}: {} engines with {} blocks of {} tokens; metrics at {}/metrics",
        plan.workers,
        plan.kv_blocks,
        plan.block_size,
        fleet.admin_url()
    )
}

fn print(flags: &DemoFlags, plan: &Plan, outcomes: &[Outcome]) -> Result<(), Failure> {
    let cannot_print = |error: &dyn std::fmt::Display| Failure::while_doing("cannot print the result", error);
    let text = if flags.json {
        json::render(plan, outcomes).map_err(|error| cannot_print(&error))?
    } else {
        table::render(outcomes) + &table::summary(outcomes)
    };
    output::result(&text).map_err(|error| cannot_print(&error))
}

async fn stay(fleet: Fleet, signals: &mut StopSignals) {
    output::note(&format!(
        "\nThe last router and its engines go on until Ctrl-C:\nmetrics at {}/metrics, requests to {}",
        fleet.admin_url(),
        fleet.data_url()
    ));
    signals.next().await;
    tokio::select! {
        () = fleet.stop() => {}
        _ = signals.next() => {}
    }
}

/// A demo in which requests failed did not show what it promised.
fn succeed_without_errors(outcomes: &[Outcome]) -> Result<(), Failure> {
    for outcome in outcomes {
        if let Some(first) = &outcome.first_error {
            let (policy, errors, requests) = (&outcome.policy, outcome.errors, outcome.requests);
            return Err(Failure::Failed(format!(
                "{policy}: {errors} of {requests} requests failed; first: {first}"
            )));
        }
    }
    Ok(())
}

// === impl Stage ===

impl Stage<'_> {
    /// One run a policy, each in front of a fleet of its own; the last fleet goes on if it is wanted.
    async fn measure(
        &self,
        keep_last: bool,
        view: &mut View,
    ) -> Result<(Vec<Outcome>, Option<Fleet>), Failure> {
        let mut outcomes = Vec::new();
        let mut last_fleet = None;
        for (index, policy) in self.plan.policies.iter().enumerate() {
            let fleet = Fleet::start(self.plan, policy, self.tokenizer, &self.encoder).await?;
            view.announce(&introduction(self.plan, policy, &fleet));
            let ended = run::run(self.plan, policy, &fleet, &outcomes, view).await;
            view.end_run();
            let is_last = index + 1 == self.plan.policies.len();
            if is_last && keep_last && ended.is_ok() {
                last_fleet = Some(fleet);
            } else {
                fleet.stop().await;
            }
            outcomes.push(ended?);
        }
        Ok((outcomes, last_fleet))
    }
}
