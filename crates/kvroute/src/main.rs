//! `kvroute`: a KV-cache-aware router for LLM engines, with a token-exact cache-reuse funnel.
//!
//! This crate only assembles: it reads what was typed, resolves it, starts the parts that the other crates
//! make, and turns signals and errors into an orderly end.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod config;
mod demo;
mod export;
mod failure;
mod http_client;
mod logging;
mod numbers;
mod output;
mod runtime;
mod signals;
mod tokenizer;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::logging::Log;

/// The system's allocator keeps an arena for each thread, and what one of them freed there stays resident while another one
/// asks for more: after a long mixed run a third of the memory. Without huge pages, which make small holes large ones.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure.to_string());
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let (flag, default) = (cli.log.as_deref(), cli.command.default_log());
    if !matches!(cli.command, Command::Serve(_)) {
        Log::of_tool(flag, default).start()?;
    }
    match cli.command {
        // Its log is configured, so it starts it itself.
        Command::Serve(flags) => runtime::block_on(commands::serve::run(flags, flag, default)),
        Command::Demo(flags) => runtime::block_on(demo::run(flags)),
        Command::Engine(flags) => runtime::block_on(commands::engine::run(flags)),
        Command::Explain(flags) => runtime::block_on(commands::explain::run(flags)),
        Command::Doctor(flags) => runtime::block_on(commands::doctor::run(flags)),
        Command::Check(flags) => commands::check::run(&flags),
        Command::Metrics(flags) => commands::metrics::run(&flags),
        Command::Completions(flags) => commands::completions::run(&flags),
    }
}
