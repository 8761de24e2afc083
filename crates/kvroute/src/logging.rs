//! Logs go to standard error, so that results on standard output can be piped. No log names a prompt's text.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::Failure;

/// Starts logging by the flag, else by `RUST_LOG`, else by the command's own default.
pub(crate) fn start(flag: Option<&str>, default: &str) -> Result<(), Failure> {
    let (source, filter) = match (flag, std::env::var("RUST_LOG")) {
        (Some(filter), _) => ("--log", filter.to_owned()),
        (None, Ok(filter)) if !filter.is_empty() => ("RUST_LOG", filter),
        (None, _) => ("default", default.to_owned()),
    };
    let unusable = |error| {
        Failure::Usage(format!(
            "{source} {filter:?} is no log filter: {error}; try info or kvroute_router=debug"
        ))
    };
    let filter = EnvFilter::builder().parse(&filter).map_err(unusable)?;
    let stderr_is_terminal = std::io::stderr().is_terminal();
    fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(stderr_is_terminal)
        .finish()
        .try_init()
        .map_err(|error| Failure::while_doing("logging cannot be started", error))
}
