//! `kvroute doctor`: what workers lack for full telemetry, and whether prompts are counted as they count them.
//!
//! Collecting and judging are apart: everything that is asked of a worker is gathered first, and what is wrong follows from
//! that by functions that ask nobody. What is sent to a worker is named: a probe asks only what a router asks too; two
//! equal completions of one token each, which `--passive` leaves out, prove what no question can.

mod collect;
mod collected;
mod finding;
mod findings;
mod json;
mod parity;
mod sockets;
mod subjects;
mod text;
mod trial;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;

use self::finding::{Diagnosis, Severity};
use self::subjects::Subjects;
use crate::failure::Failure;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Base address of an engine, such as http://10.0.0.1:8000; may be repeated
    #[arg(value_name = "URL", required_unless_present = "config")]
    urls: Vec<String>,
    /// Take workers, models and tokenizers from a configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Model folder or tokenizer.json to be compared with the engines' own counting
    #[arg(long, value_name = "PATH")]
    tokenizer: Option<PathBuf>,
    /// Model to ask for [default: the engine's first]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Send no completion: only ask what a router asks
    #[arg(long)]
    passive: bool,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Examines, prints, and fails where something is to be done.
pub(crate) async fn run(flags: DoctorFlags) -> Result<(), Failure> {
    let subjects = Subjects::of(&flags)?;
    let patients = collect::collect(subjects, !flags.passive).await;
    let diagnosis = Diagnosis::of(&patients);
    let printed = match flags.json {
        true => json::render(&patients, &diagnosis)?,
        false => text::render(&patients, &diagnosis, has_colours()),
    };
    output::result(&printed).map_err(|error| Failure::while_doing("cannot print", error))?;
    match diagnosis.count_from(Severity::Warning) {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 finding loses telemetry or correctness".to_owned())),
        more => Err(Failure::Failed(format!("{more} findings lose telemetry or correctness"))),
    }
}

/// Only for people, and only for those who want them (no-color.org).
fn has_colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
