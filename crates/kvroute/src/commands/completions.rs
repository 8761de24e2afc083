//! `kvroute completions`: a script for the user's shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct CompletionsFlags {
    /// Shell to complete for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(flags: &CompletionsFlags) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "kvroute", &mut script);
    let script = String::from_utf8_lossy(&script);
    output::result(&script).map_err(|error| Failure::while_doing("cannot print", error))
}
