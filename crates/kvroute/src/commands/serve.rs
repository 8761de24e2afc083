//! `kvroute serve`: the router, until a signal asks it to end.

mod reloading;

use std::sync::Arc;
use std::time::Duration;

use kvroute_server::Server;
use tokio::time::Instant;

use crate::config::{self, ServeFlags, Telemetry};
use crate::export::{self, Export};
use crate::failure::Failure;
use crate::logging::{Log, Writing};
use crate::signals::{HangUps, StopSignals};
use reloading::Reloading;

/// What the last spans get at least, however long the streams took to finish.
const SHORTEST_FLUSH: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or Ctrl-C; a second signal does not wait for streams. SIGHUP and changed files are taken over meanwhile. `log` and `default_log` are filters.
pub(crate) async fn run(flags: ServeFlags, log: Option<&str>, default_log: &str) -> Result<(), Failure> {
    let loaded = config::load(&flags, config::process_environment()?)?;
    let (_writing, export) = watch(&loaded.telemetry, log, default_log)?;
    for warning in loaded.warnings {
        tracing::warn!("{warning}");
    }
    let drain = loaded.config.drain;
    let (mut signals, hang_ups) = (StopSignals::listen()?, HangUps::listen()?);
    let files = loaded.config.security.files.iter().map(|file| file.path.clone()).collect();
    let server = Server::start(loaded.config).await?;
    let reloading = Reloading::new(Arc::new(flags), hang_ups, &server, loaded.telemetry, files).await;
    let signal = tokio::select! {
        signal = signals.next() => signal,
        () = reloading.run() => "the end of the watch over the configuration",
    };
    tracing::info!(signal, ?drain, "stopping: no new requests, running streams may finish");
    let stopped_by = Instant::now() + drain;
    tokio::select! {
        () = stop(server, export, stopped_by) => {
            tracing::info!("stopped");
            Ok(())
        }
        signal = signals.next() => {
            Err(Failure::Failed(format!("{signal} during the stop: streams that were left are cut")))
        }
    }
}

/// Starts the log, and the export of spans if there is to be one. Without it the router serves all the same.
fn watch(
    telemetry: &Telemetry,
    log: Option<&str>,
    default_log: &str,
) -> Result<(Writing, Option<Export>), Failure> {
    let Telemetry { access, format, otlp } = telemetry;
    let log = Log { flag: log, default: default_log, format: *format, access: *access };
    let (spans, export, problem) = match otlp.as_deref().map(export::start) {
        None => (None, None, None),
        Some(Ok((spans, export))) => (Some(spans), Some(export), None),
        Some(Err(problem)) => (None, None, Some(problem)),
    };
    let writing = log.start_beside(spans)?;
    if let Some(problem) = problem {
        tracing::warn!(%problem, "spans are not exported; set tracing.otlp to \"off\" if they are not wanted");
    }
    Ok((writing, export))
}

async fn stop(server: Server, export: Option<Export>, by: Instant) {
    server.stop().await;
    if let Some(export) = export {
        export.flush(by.saturating_duration_since(Instant::now()).max(SHORTEST_FLUSH)).await;
    }
}
