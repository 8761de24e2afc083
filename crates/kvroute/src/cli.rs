//! The command line: what can be typed.

use clap::{Parser, Subcommand};

use crate::commands::check::CheckFlags;
use crate::commands::completions::CompletionsFlags;
use crate::commands::doctor::DoctorFlags;
use crate::commands::engine::EngineFlags;
use crate::commands::explain::ExplainFlags;
use crate::commands::metrics::MetricsFlags;
use crate::config::ServeFlags;
use crate::demo::DemoFlags;

/// Routes LLM requests to the engine that holds their KV cache, and shows where reuse is lost
#[derive(Debug, Parser)]
#[command(name = "kvroute", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Log filter, such as debug; also by RUST_LOG
    #[arg(long, global = true, display_order = 900, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the router
    Serve(ServeFlags),
    /// Show what KV routing saves, with simulated engines in this process
    Demo(DemoFlags),
    /// Run one simulated engine: OpenAI HTTP, prefix cache, KV events
    Engine(EngineFlags),
    /// Tell where a running router would send a request, or sent it, and why
    Explain(ExplainFlags),
    /// Ask engines what they lack for full telemetry, and prove that prompts are counted as they count them
    Doctor(DoctorFlags),
    /// Tell what is wrong with a configuration file
    Check(CheckFlags),
    /// Print every metric, dashboards or alert rules
    Metrics(MetricsFlags),
    /// Print a shell completion script
    Completions(CompletionsFlags),
}

// === impl Command ===

impl Command {
    /// Log filter of the command if nobody names one: a service speaks, a tool is silent unless it warns.
    pub(crate) const fn default_log(&self) -> &'static str {
        match self {
            Self::Serve(_) | Self::Engine(_) => "info",
            Self::Demo(_) | Self::Explain(_) | Self::Check(_) | Self::Metrics(_) | Self::Completions(_) => {
                "warn"
            }
            // What it finds it prints itself.
            Self::Doctor(_) => "error",
        }
    }
}
