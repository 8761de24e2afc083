//! `cargo xtask test`: every step that must pass, in order, each with its name and time.
//!
//! A failed step does not stop the ones after it, so that one run of a slow machine tells everything; the exit code and
//! the last line count what failed.

mod steps;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use steps::{Context, STEPS, Step};

/// What to run.
#[derive(Args)]
pub(crate) struct Options {
    /// Also the long tests: those marked as ignored, sixteen times as many cases of each property, and ten minutes of
    /// injected faults.
    #[arg(long)]
    long: bool,
    /// Only this step (repeatable).
    #[arg(long, value_name = "STEP", value_parser = PossibleValuesParser::new(STEPS.map(|step| step.name)))]
    only: Vec<String>,
}

/// Runs the steps and fails if any of them does.
pub(crate) fn run(options: &Options) -> Result<()> {
    let context = Context::new(options.long);
    let chosen = STEPS.iter().filter(|step| options.chooses(step.name));
    let passed: Vec<bool> = chosen.map(|step| run_step(step, &context)).collect();
    let failed = passed.iter().filter(|passed| !**passed).count();
    println!("\nsteps: {} passed, {failed} failed", passed.len() - failed);
    if failed > 0 {
        bail!("what failed is marked with FAILED above");
    }
    Ok(())
}

/// Prints the step's name, runs it, prints how it ended. True if it passed.
fn run_step(step: &Step, context: &Context) -> bool {
    println!("\n=== {}: {}", step.name, step.about);
    let (result, took) = timed(|| (step.run)(context));
    match &result {
        Ok(()) => println!("=== {} passed in {took:.1?}", step.name),
        Err(error) => println!("=== {} FAILED after {took:.1?}: {error:#}", step.name),
    }
    result.is_ok()
}

#[expect(clippy::disallowed_types, reason = "how long a step took is read by people; nothing depends on it")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = std::time::Instant::now();
    let result = work();
    (result, start.elapsed())
}

// === impl Options ===

impl Options {
    fn chooses(&self, step: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == step)
    }
}
