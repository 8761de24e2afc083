//! The handle of a replica's part in the sharing.

use std::sync::Arc;

use kvroute_core::SequenceHash;
use kvroute_history::{Domain, History};
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::config::ClusterConfig;
use crate::connecting::Connecting;
use crate::message;
use crate::outbox::{Outbox, Parcels};
use crate::server::{ClusterError, Server, servers};
use crate::shared::Shared;
use crate::watcher::SharingWatcher;

/// This replica's part in the sharing. Dropping it ends that as [`Cluster::stop`] does, without waiting for it.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: DropGuard,
}

/// A history that is shared. Dropping it ends that.
#[derive(Debug)]
pub struct Sharing {
    shared: Arc<Shared>,
    domain: Arc<Domain>,
    /// `None` where no message can name the domain.
    member: Option<u64>,
}

async fn run(shared: Arc<Shared>, servers: Vec<Server>, parcels: Parcels, stop: CancellationToken) {
    tokio::select! {
        () = Connecting::new(&shared, &servers, &stop).run(parcels) => {}
        () = beat(&shared) => {}
    }
    shared.off();
}

/// Notices what time does to peers and losses, with or without a connection.
async fn beat(shared: &Shared) {
    loop {
        shared.beat(Instant::now());
        sleep(shared.timing.beat).await;
    }
}

// === impl Cluster ===

impl Cluster {
    /// Starts to share. Must be called within a runtime. Does not wait for the server: one that is not there is tried again
    /// and again.
    ///
    /// # Errors
    ///
    /// The configured servers are no addresses of servers.
    pub fn start(config: ClusterConfig, watcher: Arc<dyn SharingWatcher>) -> Result<Self, ClusterError> {
        let servers = servers(&config.nats)?;
        let (outbox, parcels) = Outbox::new(Arc::clone(&watcher));
        let shared = Arc::new(Shared::new(config.timing, watcher, outbox));
        shared.beat(Instant::now());
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(run(Arc::clone(&shared), servers, parcels, stop.clone()));
        tasks.close();
        Ok(Self { shared, tasks, stop: stop.drop_guard() })
    }

    /// Shares a history from now on: it learns what the other replicas learn and already know.
    pub fn share(&self, domain: Domain, history: Arc<History>) -> Sharing {
        let (shared, domain) = (Arc::clone(&self.shared), Arc::new(domain));
        if !message::fits(&domain) {
            tracing::warn!(%domain, "history is not shared: the names are too long for a message");
            return Sharing { shared, domain, member: None };
        }
        let member = Some(shared.domains.add(Arc::clone(&domain), history));
        Sharing { shared, domain, member }
    }

    /// Takes leave of the others and ends the sharing. Takes a second at most.
    pub async fn stop(&self) {
        self.stop.token().cancel();
        self.tasks.wait().await;
    }
}

// === impl Sharing ===

impl Sharing {
    /// Tells the other replicas what this one taught its own history. Never waits: without a connection, or when too much
    /// waits already, nothing is told and the loss is counted.
    pub fn taught(&self, hashes: &[SequenceHash]) {
        if self.member.is_some() {
            self.shared.outbox.push(&self.domain, hashes);
        }
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        if let Some(member) = self.member {
            self.shared.domains.remove(member);
        }
    }
}
