//! `kvroute serve`: the router, until a signal asks it to end.

use kvroute_server::Server;

use crate::config::{self, ServeFlags};
use crate::failure::Failure;
use crate::signals::StopSignals;

/// Serves until SIGTERM or Ctrl-C; a second signal does not wait for streams.
pub(crate) async fn run(flags: ServeFlags) -> Result<(), Failure> {
    let loaded = config::load(&flags, config::process_environment()?)?;
    for warning in loaded.warnings {
        tracing::warn!("{warning}");
    }
    let drain = loaded.config.drain;
    let mut signals = StopSignals::listen()?;
    let server = Server::start(loaded.config).await?;
    let signal = signals.next().await;
    tracing::info!(signal, ?drain, "stopping: no new requests, running streams may finish");
    tokio::select! {
        () = server.stop() => {
            tracing::info!("stopped");
            Ok(())
        }
        signal = signals.next() => {
            Err(Failure::Failed(format!("{signal} during the stop: streams that were left are cut")))
        }
    }
}
