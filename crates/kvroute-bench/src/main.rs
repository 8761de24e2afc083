//! Measures the index, the way of events into it, decisions, telemetry, token ids, and what the policies make of a fleet.
//!
//! A workspace of its own, so that the published indexes that it is held against are compiled by nobody else. Figures
//! come with the machine they were measured on, and as ratios to the others of the same run. Nothing here decides
//! whether a change may be made.

mod balance;
mod decide;
mod heap;
mod history;
mod index;
mod ingest;
mod machine;
mod random;
mod soak;
mod stopwatch;
mod streams;
mod table;
mod telemetry;
mod token_ids;
mod tokenize;

use clap::{Parser, Subcommand};

/// Measures kvroute's index, decisions and telemetry beside published ones in the same run, and its policies beside each other. Build it with `--release`, run it on an idle machine.
#[derive(Parser, Debug)]
#[command(name = "kvroute-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Balance(balance::BalanceArgs),
    Decide(decide::DecideArgs),
    History(history::HistoryArgs),
    Index(index::IndexArgs),
    Ingest(ingest::IngestArgs),
    Soak(soak::SoakArgs),
    Streams(streams::StreamsArgs),
    Telemetry(telemetry::TelemetryArgs),
    TokenIds(token_ids::TokenIdsArgs),
    Tokenize(tokenize::TokenizeArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Balance(args) => balance::run(&args),
        Command::Decide(args) => decide::run(&args),
        Command::History(args) => history::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Ingest(args) => ingest::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Streams(args) => streams::run(&args),
        Command::Telemetry(args) => telemetry::run(&args),
        Command::TokenIds(args) => token_ids::run(&args),
        Command::Tokenize(args) => tokenize::run(&args),
    }
}
