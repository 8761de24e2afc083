//! `cargo xtask fuzz`: every fuzz target for a few seconds, starting from its seeds.
//!
//! It does what `cargo fuzz` does, with the toolchain of the project: the same instrumentation, which stable compilers
//! have but hide, and the same layout of `fuzz/`, so that `cargo fuzz` works there too. Every run starts from the
//! committed seeds alone, so that a failure comes from this code and not from what an earlier run left behind.

mod build;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cache::{fresh_folder, target_folder};
use crate::shell::{command, root};
use build::Binaries;

/// What to run and for how long.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these targets, by the names of the files in fuzz/fuzz_targets.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Time for all targets together.
    #[arg(long, default_value_t = SECONDS)]
    pub(crate) seconds: u64,
}

/// Enough to run every seed and some hundred thousand mutations of them.
pub(crate) const SECONDS: u64 = 30;

/// Ways of a target to use up a machine, each of which is a failure.
const LIMITS: [&str; 3] = ["-max_len=16384", "-timeout=10", "-rss_limit_mb=2048"];

/// Builds the targets and runs one after the other; fails with the names of those that failed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let targets = options.chosen()?;
    let binaries = build::build(&targets)?;
    let share = (options.seconds / targets.len() as u64).max(1);
    let outcomes = targets.iter().map(|target| Ok((target, fuzz(&binaries, target, share)?)));
    let outcomes: Vec<(&String, bool)> = outcomes.collect::<Result<_>>()?;
    let failed: Vec<&str> =
        outcomes.iter().filter(|(_, passed)| !passed).map(|(target, _)| target.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("fuzz targets that failed: {}", failed.join(", "))
}

/// Runs one target, prints what it reached or how it failed. True if it found nothing.
fn fuzz(binaries: &Binaries, target: &str, seconds: u64) -> Result<bool> {
    let folder = found_folder(target)?;
    let program = binaries.path(target);
    let output = command(&program)
        .args(["-seed=1", "-print_final_stats=1"])
        .arg(format!("-max_total_time={seconds}"))
        .args(LIMITS)
        // A fuzzer ends without cleaning up.
        .env("TMPDIR", &folder)
        .arg(format!("-artifact_prefix={}/", folder.display()))
        .args([folder.join("corpus"), root().join("fuzz/seeds").join(target)])
        .output()
        .with_context(|| format!("{} cannot be started", program.display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!(
            "{target}: {} executions, {} a second",
            figure(&log, "executed_units"),
            figure(&log, "per_sec")
        );
        return Ok(true);
    }
    println!("{target} FAILED ({}):\n{}", output.status, failure(&log));
    for input in failing_inputs(&folder)? {
        println!("run it again: {} {}", program.display(), input.display());
    }
    Ok(false)
}

/// An empty folder for what a run finds.
fn found_folder(target: &str) -> Result<PathBuf> {
    let folder = fresh_folder(target_folder()?.join("fuzz/found").join(target))?;
    fresh_folder(folder.join("corpus"))?;
    Ok(folder)
}

/// A figure of the statistics at the end of a run.
fn figure<'a>(log: &'a str, name: &str) -> &'a str {
    let line = log.lines().find(|line| line.starts_with("stat::") && line.contains(name));
    line.and_then(|line| line.split_whitespace().last()).unwrap_or("?")
}

/// What a run said from its failure on.
fn failure(log: &str) -> &str {
    let words = ["panicked at", "ERROR: "];
    let place = words.iter().filter_map(|word| log.find(word)).min().unwrap_or(0);
    &log[log[..place].rfind('\n').map_or(0, |end| end + 1)..]
}

fn failing_inputs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    Ok(entries.iter().map(fs::DirEntry::path).filter(|path| path.is_file()).collect())
}

// === impl Options ===

impl Options {
    fn chosen(&self) -> Result<Vec<String>> {
        let known = build::targets()?;
        match self.targets.iter().find(|target| !known.contains(target)) {
            Some(unknown) => bail!("there is no fuzz target {unknown}; the targets are {}", known.join(", ")),
            None if self.targets.is_empty() => Ok(known),
            None => Ok(self.targets.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "#2\tINITED cov: 10\n#9\tNEW    cov: 11\nthread 'x' panicked at fuzz_targets/a.rs:1:1:\nleft\n\
        ==7== ERROR: libFuzzer: deadly signal\nstat::average_exec_per_sec:     5746\n";

    #[test]
    fn a_failed_run_is_told_from_its_failure_on() {
        assert!(failure(LOG).starts_with("thread 'x' panicked"));
        assert_eq!(failure("cannot execute\n"), "cannot execute\n");
    }

    #[test]
    fn figures_are_found_by_name() {
        assert_eq!(figure(LOG, "per_sec"), "5746");
        assert_eq!(figure(LOG, "executed_units"), "?");
    }

    #[test]
    fn every_target_has_its_seeds() {
        for target in build::targets().unwrap() {
            assert!(root().join("fuzz/seeds").join(&target).is_dir(), "{target} has no folder in fuzz/seeds");
        }
    }

    #[test]
    fn an_unknown_target_is_named_with_those_that_there_are() {
        let options = Options { targets: vec!["nothing".to_owned()], seconds: 1 };
        let message = options.chosen().unwrap_err().to_string();
        assert!(message.contains("nothing") && message.contains("zmtp_peer"), "{message}");
    }
}
