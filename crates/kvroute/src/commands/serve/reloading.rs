//! A running router takes its configuration anew: after SIGHUP, and when a file that it was read from has changed.
//!
//! What stands in the environment and on the command line counts again, as it did at the start. A configuration that is
//! wrong anywhere is refused whole: whoever makes a typing mistake must not lose a worker by it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kvroute_cluster::discovery::watched_file::WatchedFile;
use kvroute_metrics::ReloadOutcome;
use kvroute_router::{ReloadReport, Router};
use kvroute_server::{Reload, Server, ServerChanges, StartError};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::config::{self, Loaded, ServeFlags, Telemetry};
use crate::failure::Failure;
use crate::signals::HangUps;

/// How often the files are looked at.
const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// Takes new configurations over for as long as the router runs.
pub(super) struct Reloading {
    flags: Arc<ServeFlags>,
    hang_ups: HangUps,
    router: Arc<Router>,
    server: Reload,
    telemetry: Telemetry,
    files: Vec<WatchedFile>,
}

// === impl Reloading ===

impl Reloading {
    /// Watches over a server that was started with this configuration. `files` were read beside the configuration's own.
    pub(super) async fn new(
        flags: Arc<ServeFlags>,
        hang_ups: HangUps,
        server: &Server,
        telemetry: Telemetry,
        files: Vec<PathBuf>,
    ) -> Self {
        let mut reloading = Self {
            flags,
            hang_ups,
            router: Arc::clone(server.router()),
            server: server.reload_handle(),
            telemetry,
            files: Vec::new(),
        };
        reloading.watch(files).await;
        reloading
    }

    /// Never ends by itself.
    pub(super) async fn run(mut self) {
        loop {
            let is_asked = tokio::select! {
                () = self.hang_ups.next() => true,
                () = sleep(LOOKED_EVERY) => false,
            };
            if is_asked {
                self.see_files().await;
            }
            if is_asked || self.have_files_changed().await {
                self.reload(if is_asked { "SIGHUP" } else { "a file has changed" }).await;
            }
        }
    }

    /// What the files are now is about to be taken over, and no change any more.
    async fn see_files(&mut self) {
        for file in &mut self.files {
            let _as_it_is_now = file.read().await;
        }
    }

    async fn have_files_changed(&mut self) -> bool {
        let mut have_changed = false;
        for file in &mut self.files {
            have_changed |= file.changed().await.is_some();
        }
        have_changed
    }

    async fn reload(&mut self, cause: &'static str) {
        let outcome = match self.try_reload().await {
            Ok(report) => {
                tell(cause, &report);
                ReloadOutcome::Applied
            }
            Err(problem) => {
                tracing::error!(cause, %problem, "new configuration refused: the old one stays");
                ReloadOutcome::Refused
            }
        };
        self.router.metrics().reloads().count(outcome);
    }

    async fn try_reload(&mut self) -> Result<ReloadReport, Failure> {
        let flags = Arc::clone(&self.flags);
        let load = move || config::load(&flags, config::process_environment()?);
        let loaded = spawn_blocking(load).await;
        let loaded =
            loaded.map_err(|error| Failure::while_doing("cannot read the configuration", error))??;
        let Loaded { config, telemetry, warnings } = loaded;
        let prepared = self.server.prepare(&config)?;
        let files = config.security.files.iter().map(|file| file.path.clone()).collect();
        let mut report = self.router.reload(config.router).map_err(StartError::from)?;
        let ServerChanges { changed, needs_restart } = prepared.commit();
        report.changed.extend(changed);
        report.needs_restart.extend(needs_restart.into_iter().map(str::to_owned));
        report.needs_restart.extend(telemetry.differences(&self.telemetry).into_iter().map(str::to_owned));
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        self.watch(files).await;
        Ok(report)
    }

    /// From now on the configuration's file and these are looked at.
    async fn watch(&mut self, files: Vec<PathBuf>) {
        let paths: Vec<_> = self.flags.config.iter().cloned().chain(files).collect();
        self.files.retain(|file| paths.iter().any(|path| path == file.path()));
        for path in paths {
            if !self.files.iter().any(|file| file.path() == path) {
                let mut file = WatchedFile::new(path);
                let _as_it_is_now = file.read().await;
                self.files.push(file);
            }
        }
    }
}

/// Says what became of a configuration.
fn tell(cause: &'static str, report: &ReloadReport) {
    let ReloadReport { changed, needs_restart, joining, leaving } = report;
    tracing::info!(cause, ?changed, ?joining, ?leaving, "configuration taken over");
    for setting in needs_restart {
        tracing::warn!(%setting, "setting has changed and keeps its old value until the router is restarted");
    }
}
