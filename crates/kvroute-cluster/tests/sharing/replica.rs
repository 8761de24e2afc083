//! A replica as a router is one, with everything that it was told written down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kvroute_cluster::{Cluster, ClusterConfig, Sharing, SharingWatcher, Timing};
use kvroute_core::{BlockSize, Blocks, Direction, MessageResult, ModelName, SequenceHash, SharingState};
use kvroute_history::{Domain, History};
use parking_lot::{Condvar, Mutex};

use super::server::{BETWEEN_LOOKS, LOOKS, Server};

/// A replica with one history.
pub(crate) struct Replica {
    pub(crate) cluster: Cluster,
    pub(crate) history: Arc<History>,
    pub(crate) sharing: Sharing,
    pub(crate) watch: Arc<Watch>,
}

/// What the sharing told.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    states: Mutex<Vec<SharingState>>,
    messages: Mutex<BTreeMap<(Direction, MessageResult), u64>>,
    dropped: AtomicU64,
    peers: AtomicUsize,
    hold: Mutex<bool>,
    released: Condvar,
}

/// What a test shares.
pub(crate) fn domain() -> Domain {
    Domain::of(&ModelName::new("qwen3-8b"), BlockSize::new(16).unwrap())
}

/// So many hashes, the same for the same seed.
pub(crate) fn hashes(seed: u64, count: u64) -> Vec<SequenceHash> {
    (0..count)
        .map(|number| SequenceHash::from_raw((seed << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect()
}

/// Fast enough for tests, and patient with a slow machine.
pub(crate) fn timing() -> Timing {
    Timing {
        beat: Duration::from_millis(20),
        announce: Duration::from_millis(200),
        peer_silence: Duration::from_secs(20),
        offers: Duration::from_millis(100),
        no_offers: Duration::from_secs(2),
        part_silence: Duration::from_secs(3),
        away: Duration::from_secs(3600),
        quiet: Duration::from_millis(300),
        first_pause: Duration::from_millis(20),
        longest_pause: Duration::from_millis(320),
        transfer_rate: 100e6,
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    panic!("never happened: {what}");
}

// === impl Replica ===

impl Replica {
    pub(crate) fn at(server: &Server) -> Self {
        Self::with(&server.url(), timing(), domain(), &[])
    }

    /// One whose history holds something before it joins.
    pub(crate) fn knowing(server: &Server, known: &[SequenceHash]) -> Self {
        Self::with(&server.url(), timing(), domain(), known)
    }

    pub(crate) fn with(url: &str, timing: Timing, domain: Domain, known: &[SequenceHash]) -> Self {
        let (history, watch) = (Arc::new(History::new(8 << 20, rand::random())), Arc::new(Watch::default()));
        history.teach(known);
        let config = ClusterConfig { nats: url.to_owned(), timing };
        let cluster = Cluster::start(config, watch.clone()).unwrap();
        let sharing = cluster.share(domain, Arc::clone(&history));
        Self { cluster, history, sharing, watch }
    }

    /// As the router does when a request completed.
    pub(crate) fn learn(&self, hashes: &[SequenceHash]) {
        self.history.teach(hashes);
        self.sharing.taught(hashes);
    }

    pub(crate) fn knows(&self, hashes: &[SequenceHash]) -> bool {
        self.history.known_prefix(hashes) == Blocks::from(hashes.len())
    }

    pub(crate) async fn until_it_knows(&self, hashes: &[SequenceHash]) {
        until("it knows the hashes", || self.knows(hashes)).await;
    }

    pub(crate) async fn until_on(&self) {
        until("the sharing is on", || self.watch.state() == SharingState::On).await;
    }

    pub(crate) async fn until_degraded(&self) {
        until("the sharing is degraded", || self.watch.state() == SharingState::Degraded).await;
    }

    pub(crate) async fn until_peers(&self, peers: usize) {
        until(&format!("there are {peers} peers"), || self.watch.peers() == peers).await;
    }

    pub(crate) async fn until_received(&self, result: MessageResult) {
        until(&format!("a message is {result:?}"), || self.watch.received(result) > 0).await;
    }
}

/// Connects as many replicas as there are and waits until they know each other.
pub(crate) async fn acquainted(replicas: &[&Replica]) {
    for replica in replicas {
        replica.until_on().await;
        replica.until_peers(replicas.len() - 1).await;
    }
}

// === impl Watch ===

impl Watch {
    pub(crate) fn state(&self) -> SharingState {
        self.states.lock().last().copied().unwrap_or(SharingState::Off)
    }

    pub(crate) fn states(&self) -> Vec<SharingState> {
        self.states.lock().clone()
    }

    pub(crate) fn received(&self, result: MessageResult) -> u64 {
        self.messages.lock().get(&(Direction::Received, result)).copied().unwrap_or_default()
    }

    pub(crate) fn sent(&self) -> u64 {
        self.messages.lock().get(&(Direction::Sent, MessageResult::Ok)).copied().unwrap_or_default()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn peers(&self) -> usize {
        self.peers.load(Ordering::Relaxed)
    }

    /// The next message that is received holds the replica up.
    pub(crate) fn hold(&self) {
        *self.hold.lock() = true;
    }

    pub(crate) fn release(&self) {
        *self.hold.lock() = false;
        self.released.notify_all();
    }
}

impl SharingWatcher for Watch {
    fn state(&self, state: SharingState) {
        self.states.lock().push(state);
    }

    fn message(&self, direction: Direction, result: MessageResult) {
        *self.messages.lock().entry((direction, result)).or_default() += 1;
        if direction == Direction::Received {
            self.released.wait_while(&mut self.hold.lock(), |hold| *hold);
        }
    }

    fn dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Ordering::Relaxed);
    }

    fn peers(&self, peers: usize) {
        self.peers.store(peers, Ordering::Relaxed);
    }
}
