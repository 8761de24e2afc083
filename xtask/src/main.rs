//! Development tasks: `cargo xtask test` sets up what the tests need and runs everything that must pass.
//!
//! A task is a file here and not a shell script so that it is checked by the compiler, reads the same on every machine,
//! and needs nothing but the tools that the project itself needs. Dependencies stay few: each of them delays every task.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool speaks to its user")]

mod bless;
mod cache;
mod dist;
mod fuzz;
mod lint;
mod peers;
mod shell;
mod test;
mod tokenizer;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of kvroute")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs everything that must pass: format, lints, docs, structure, licences, tests with their real peers.
    Test(test::Options),
    /// Writes every generated and golden file anew: documentation, dashboards, alert rules, expected output of tests.
    Bless,
    /// Checks the rules of structure that the compiler does not know.
    Lint,
    /// Runs the fuzz targets for a while, each from its seeds.
    Fuzz(fuzz::Options),
    /// Builds the binary that is packaged, optimised by what a run of it does: two builds, some ten minutes.
    Dist,
    /// Sets up the real peers of the tests and prints their environment, to be used as `eval "$(cargo xtask peers)"`.
    Peers,
    /// Trains the demo tokenizer from its corpus and makes the demo model of llama.cpp around it.
    TrainTokenizer {
        /// Write nothing; fail if the committed files are not what training gives.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Test(options) => test::run(&options),
        Task::Bless => bless::run_all(),
        Task::Lint => lint::run(),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Dist => dist::run_all(),
        Task::Peers => print_peers(),
        Task::TrainTokenizer { check } => tokenizer::train(check),
    }
}

fn print_peers() -> Result<()> {
    for (name, value) in peers::set_up()?.environment() {
        println!("export {name}='{}'", value.display());
    }
    Ok(())
}
