//! New settings for a server that runs: checked whole before any of them counts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvroute_metrics::MetricsOptions;

use crate::differences;
use crate::listener::Terms;
use crate::live::{Live, Settings};
use crate::server::{ServeConfig, StartError};

/// Hands new settings to a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reload {
    live: Arc<Live>,
    fixed: Arc<Fixed>,
}

/// Settings that can be used and are not used yet. Dropping them changes nothing.
#[derive(Debug)]
#[must_use = "nothing changes before it is committed"]
pub struct PreparedReload {
    live: Arc<Live>,
    settings: Settings,
    data: Terms,
    admin: Terms,
    changes: ServerChanges,
}

/// Settings of a server that a new configuration gives another value, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerChanges {
    /// They count from now on.
    pub changed: Vec<String>,
    /// They keep their old value until the router is restarted.
    pub needs_restart: Vec<&'static str>,
}

/// What a server keeps until it ends.
#[derive(Debug)]
pub(crate) struct Fixed {
    listen: SocketAddr,
    admin_listen: SocketAddr,
    drain: Duration,
    metrics: MetricsOptions,
}

// === impl Reload ===

impl Reload {
    pub(crate) fn new(live: Arc<Live>, fixed: Arc<Fixed>) -> Self {
        Self { live, fixed }
    }

    /// Checks new settings. Pools and workers are the router's own matter.
    ///
    /// # Errors
    /// They could not be started with either.
    pub fn prepare(&self, config: &ServeConfig) -> Result<PreparedReload, StartError> {
        config.check_admin()?;
        let before = self.live.settings.load();
        let settings = Settings::succeeding(&before, config);
        let changes = ServerChanges::between(&before, &settings, self.fixed.differences(config));
        Ok(PreparedReload {
            live: Arc::clone(&self.live),
            settings,
            data: Terms::of_data(config),
            admin: Terms::of_admin(config),
            changes,
        })
    }
}

// === impl PreparedReload ===

impl PreparedReload {
    /// From here on the new settings count: for every request that comes, and for every connection that is made. Gives the
    /// keys of the settings that differ.
    pub fn commit(self) -> ServerChanges {
        self.live.settings.store(Arc::new(self.settings));
        self.live.data.store(Arc::new(self.data));
        self.live.admin.store(Arc::new(self.admin));
        self.changes
    }
}

// === impl ServerChanges ===

impl ServerChanges {
    fn between(before: &Settings, now: &Settings, needs_restart: Vec<&'static str>) -> Self {
        let mut changed = differences::of_settings(&before.shown, &now.shown);
        changed.retain(|key| !needs_restart.contains(&key.as_str()));
        for name in differences::of_files(&before.files, &now.files) {
            if !changed.contains(&name) {
                changed.push(name);
            }
        }
        Self { changed, needs_restart }
    }
}

// === impl Fixed ===

impl Fixed {
    pub(crate) fn new(config: &ServeConfig) -> Self {
        Self {
            listen: config.listen,
            admin_listen: config.admin_listen,
            drain: config.drain,
            metrics: config.metrics.clone(),
        }
    }

    fn differences(&self, config: &ServeConfig) -> Vec<&'static str> {
        let differs = [
            ("server.listen", self.listen != config.listen),
            ("server.admin_listen", self.admin_listen != config.admin_listen),
            ("server.drain", self.drain != config.drain),
            ("metrics.prefix", self.metrics.prefix != config.metrics.prefix),
            ("metrics.const_labels", self.metrics.const_labels != config.metrics.const_labels),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }
}
