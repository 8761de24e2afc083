//! KV events on ZeroMQ, in vLLM's frames: a publisher, and a second socket that replays what was missed.
//!
//! The replay buffer is shared with a task of its own, so neither a subscriber that does not read nor one that
//! asks for everything again holds up the engine.

mod payload;
mod replay;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use kvroute_core::BlockSize;
use kvroute_zmtp::{Endpoint, Publisher, ZmtpError};
use parking_lot::Mutex;
use serde::Serialize;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::cache::CacheChange;
use crate::config::{EventEndpoint, SimConfig};
use crate::faults::FaultBoard;

use replay::{ReplayBuffer, ReplayServer};

/// First frame of every event message.
pub(crate) const TOPIC: &str = "kv-events";
/// Messages that may wait for one subscriber before it loses the newest, as vLLM sets it.
const HIGH_WATER_MARK: usize = 100_000;

/// Where a rank's events are found: one entry of `GET /kv_event_sources`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct EventSource {
    data_parallel_rank: u32,
    endpoint: String,
    replay_endpoint: Option<String>,
    topic: &'static str,
}

/// Numbers, publishes and remembers event batches; without a socket it does nothing.
#[derive(Debug)]
pub(crate) struct EventPublisher {
    sockets: Option<Sockets>,
    block_size: BlockSize,
    faults: Arc<FaultBoard>,
}

#[derive(Debug)]
struct Sockets {
    publisher: Publisher,
    replay_address: Option<Endpoint>,
    buffer: Arc<Mutex<ReplayBuffer>>,
    stop_replay: DropGuard,
    tasks: TaskTracker,
}

// === impl EventPublisher ===

impl EventPublisher {
    /// Binds the sockets that the settings ask for; free ports are taken on the HTTP host.
    pub(crate) async fn bind(
        config: &SimConfig,
        http_host: IpAddr,
        faults: Arc<FaultBoard>,
    ) -> Result<Self, ZmtpError> {
        let block_size = config.block_size;
        let Some(address) = resolve(&config.kv_events, http_host) else {
            return Ok(Self { sockets: None, block_size, faults });
        };
        let publisher = Publisher::bind(&address, HIGH_WATER_MARK).await?;
        let buffer = Arc::<Mutex<ReplayBuffer>>::default();
        let (tasks, stop_replay) = (TaskTracker::new(), CancellationToken::new());
        let mut replay_address = None;
        if let Some(address) = resolve(&config.kv_replay, http_host) {
            let server = ReplayServer::bind(&address, Arc::clone(&buffer), Arc::clone(&faults)).await?;
            replay_address = Some(server.address());
            tasks.spawn(server.run(stop_replay.clone()));
        }
        let stop_replay = stop_replay.drop_guard();
        let sockets = Sockets { publisher, replay_address, buffer, stop_replay, tasks };
        Ok(Self { sockets: Some(sockets), block_size, faults })
    }

    /// Where the events are, with the real ports.
    pub(crate) fn sources(&self) -> Vec<EventSource> {
        let Some(sockets) = &self.sockets else { return Vec::new() };
        vec![EventSource {
            data_parallel_rank: 0,
            endpoint: announced(&Endpoint::from(sockets.publisher.local_addr())),
            replay_endpoint: sockets.replay_address.as_ref().map(announced),
            topic: TOPIC,
        }]
    }

    /// The real addresses of the event and the replay socket, to be bound again.
    pub(crate) fn addresses(&self) -> (EventEndpoint, EventEndpoint) {
        let Some(sockets) = &self.sockets else { return (EventEndpoint::None, EventEndpoint::None) };
        let replay = sockets.replay_address.clone().map_or(EventEndpoint::None, EventEndpoint::Address);
        (EventEndpoint::Address(Endpoint::from(sockets.publisher.local_addr())), replay)
    }

    /// Sends the changes of one step as one batch. Never waits.
    pub(crate) fn publish(&self, changes: &[CacheChange]) {
        let Some(sockets) = &self.sockets else { return };
        let unseen = &self.faults.unseen;
        if self.faults.is_silent() {
            return unseen.until_clear();
        }
        let payload = Bytes::from(payload::encode(changes, self.block_size, unix_seconds()));
        let sequence = sockets.buffer.lock().push(payload.clone());
        let clears = changes.contains(&CacheChange::Cleared);
        // What nobody listens to is lost like what is not sent: a subscriber may be on its way.
        if self.faults.loses_next() || sockets.publisher.subscribers() == 0 {
            return unseen.until_message(clears);
        }
        sockets.publisher.send(&replay::message(sequence, payload));
        unseen.told(clears);
    }

    /// The cache was emptied and the next batch will say so.
    pub(crate) fn will_tell_reset(&self) {
        self.faults.unseen.until_message(false);
    }

    /// The cache was emptied and no batch will ever say so.
    pub(crate) fn will_not_tell_reset(&self) {
        self.faults.unseen.until_clear();
    }

    /// Closes the sockets and waits until their addresses are free.
    pub(crate) async fn close(self) {
        let Some(sockets) = self.sockets else { return };
        drop(sockets.stop_replay);
        sockets.tasks.close();
        sockets.tasks.wait().await;
        sockets.publisher.close().await;
    }
}

fn resolve(endpoint: &EventEndpoint, http_host: IpAddr) -> Option<Endpoint> {
    match endpoint {
        EventEndpoint::Auto => Some(Endpoint::new(http_host.to_string(), 0)),
        EventEndpoint::None => None,
        EventEndpoint::Address(address) => Some(address.clone()),
    }
}

/// As vLLM spells it: every local address is `*`.
fn announced(endpoint: &Endpoint) -> String {
    match endpoint.is_wildcard() {
        true => Endpoint::new("*", endpoint.port()).to_string(),
        false => endpoint.to_string(),
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
