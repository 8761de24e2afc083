//! What every part of the sharing sees.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvroute_core::{Direction, MessageResult, SharingState};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Timing;
use crate::domains::Domains;
use crate::health::Health;
use crate::message::Origin;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::watcher::SharingWatcher;

/// State that outlives a connection.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) origin: Origin,
    pub(crate) timing: Timing,
    pub(crate) watcher: Arc<dyn SharingWatcher>,
    pub(crate) outbox: Outbox,
    pub(crate) domains: Domains,
    pub(crate) peers: Mutex<Peers>,
    /// Something must be told before the next beat.
    pub(crate) wake: Notify,
    health: Mutex<Health>,
    /// Messages of peers that did not come.
    lost: AtomicU64,
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(timing: Timing, watcher: Arc<dyn SharingWatcher>, outbox: Outbox) -> Self {
        Self {
            origin: Origin::random(),
            peers: Mutex::new(Peers::new(timing.peer_silence)),
            timing,
            watcher,
            outbox,
            domains: Domains::default(),
            wake: Notify::new(),
            health: Mutex::new(Health::default()),
            lost: AtomicU64::new(0),
        }
    }

    /// A connection begins or ends.
    pub(crate) fn connected(&self, is_connected: bool) {
        self.outbox.set_open(is_connected);
        self.health.lock().connected(is_connected);
        self.show_health(Instant::now());
    }

    /// The server refused something. True for the first time on this connection.
    pub(crate) fn refused(&self) -> bool {
        let is_first = self.health.lock().refused();
        self.show_health(Instant::now());
        is_first
    }

    /// A message came, and this became of it.
    pub(crate) fn received(&self, result: MessageResult) {
        self.watcher.message(Direction::Received, result);
    }

    /// So many messages of a peer did not come.
    pub(crate) fn lost(&self, from: Origin, messages: u64) {
        if messages == 0 {
            return;
        }
        tracing::trace!(%from, messages, "updates of a peer were lost");
        self.lost.fetch_add(messages, Ordering::Relaxed);
        for _ in 0..messages {
            self.received(MessageResult::Lost);
        }
    }

    /// Forgets silent peers and tells what became of the sharing.
    pub(crate) fn beat(&self, now: Instant) {
        self.peers.lock().forget_silent(now);
        self.show_peers();
        self.show_health(now);
    }

    pub(crate) fn show_peers(&self) {
        let peers = self.peers.lock().count(|domain| self.domains.holds(domain));
        self.watcher.peers(peers);
    }

    fn show_health(&self, now: Instant) {
        let losses = self.outbox.dropped() + self.lost.load(Ordering::Relaxed);
        let mut health = self.health.lock();
        if let Some(state) = health.change(losses, self.timing.quiet, now) {
            self.watcher.state(state);
        }
    }

    /// Nothing is shared any more.
    pub(crate) fn off(&self) {
        self.outbox.set_open(false);
        self.peers.lock().forget_all();
        self.show_peers();
        self.watcher.state(SharingState::Off);
    }
}
