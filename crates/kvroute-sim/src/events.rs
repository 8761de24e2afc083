//! KV events on ZeroMQ, in the frames of vLLM and SGLang: a publisher, and a second socket that replays what was missed;
//! or TensorRT-LLM's list, which is kept until somebody asks for it.
//!
//! The replay buffer is shared with a task of its own, so neither a subscriber that does not read nor one that
//! asks for everything again holds up the engine.

mod payload;
mod polled;
mod replay;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use kvroute_core::BlockSize;
use kvroute_zmtp::{Endpoint, Publisher, ZmtpError};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::cache::CacheChange;
use crate::config::{EventEndpoint, Flavour, SimConfig};
use crate::faults::FaultBoard;

use payload::Style;
pub(crate) use polled::PolledEvents;
use replay::{ReplayBuffer, ReplayServer};

/// First frame of every event message.
pub(crate) const TOPIC: &str = "kv-events";
/// Messages that may wait for one subscriber before it loses the newest, as vLLM sets it.
const HIGH_WATER_MARK: usize = 100_000;

/// Where a rank's events are found, with the real ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventSource {
    pub(crate) rank: u32,
    pub(crate) address: Endpoint,
    pub(crate) replay_address: Option<Endpoint>,
}

/// Numbers, publishes and remembers the event batches of one rank; without a socket or a list it does nothing.
#[derive(Debug)]
pub(crate) struct EventPublisher {
    sockets: Option<Sockets>,
    polled: Option<Arc<PolledEvents>>,
    block_size: BlockSize,
    style: Style,
    rank: u32,
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
    /// Binds the sockets that the settings ask for; free ports are taken on the HTTP host. The ranks behind the first one
    /// have the ports behind its.
    pub(crate) async fn bind(
        config: &SimConfig,
        rank: u32,
        http_host: IpAddr,
        faults: Arc<FaultBoard>,
    ) -> Result<Self, ZmtpError> {
        let style = if config.flavour == Flavour::Sglang { Style::Sglang } else { Style::Vllm };
        let unheard =
            Self { sockets: None, polled: None, block_size: config.block_size, style, rank, faults };
        if config.flavour == Flavour::TrtLlm && config.kv_events != EventEndpoint::None {
            let polled = PolledEvents::new(config.context());
            return Ok(Self { polled: Some(Arc::new(polled)), ..unheard });
        }
        let Some(address) = resolve(&config.kv_events, http_host).filter(|_| config.flavour.publishes())
        else {
            return Ok(unheard);
        };
        let publisher = Publisher::bind(&behind(address, rank), HIGH_WATER_MARK).await?;
        let buffer = Arc::<Mutex<ReplayBuffer>>::default();
        let (tasks, stop_replay) = (TaskTracker::new(), CancellationToken::new());
        let mut replay_address = None;
        if let Some(address) = resolve(&config.kv_replay, http_host) {
            let address = behind(address, rank);
            let server =
                ReplayServer::bind(&address, Arc::clone(&buffer), Arc::clone(&unheard.faults)).await?;
            replay_address = Some(server.address());
            tasks.spawn(server.run(stop_replay.clone()));
        }
        let stop_replay = stop_replay.drop_guard();
        let sockets = Sockets { publisher, replay_address, buffer, stop_replay, tasks };
        Ok(Self { sockets: Some(sockets), ..unheard })
    }

    /// Where the events are, with the real ports.
    pub(crate) fn source(&self) -> Option<EventSource> {
        let sockets = self.sockets.as_ref()?;
        let address = Endpoint::from(sockets.publisher.local_addr());
        Some(EventSource { rank: self.rank, address, replay_address: sockets.replay_address.clone() })
    }

    /// The list that is kept for whoever asks.
    pub(crate) fn polled(&self) -> Option<Arc<PolledEvents>> {
        self.polled.clone()
    }

    /// The real addresses of the event and the replay socket, to be bound again.
    pub(crate) fn addresses(&self) -> (EventEndpoint, EventEndpoint) {
        let Some(sockets) = &self.sockets else { return (EventEndpoint::None, EventEndpoint::None) };
        let replay = sockets.replay_address.clone().map_or(EventEndpoint::None, EventEndpoint::Address);
        (EventEndpoint::Address(Endpoint::from(sockets.publisher.local_addr())), replay)
    }

    /// Sends the changes of one step as one batch. Never waits.
    pub(crate) fn publish(&self, changes: &[CacheChange]) {
        if let Some(polled) = &self.polled {
            return self.keep(polled, changes);
        }
        let Some(sockets) = &self.sockets else { return };
        let unseen = &self.faults.unseen;
        if self.faults.is_silent() {
            return unseen.until_clear();
        }
        let payload =
            Bytes::from(payload::encode(self.style, changes, self.block_size, self.rank, unix_seconds()));
        let sequence = sockets.buffer.lock().push(payload.clone());
        let clears = changes.contains(&CacheChange::Cleared);
        // What nobody listens to is lost like what is not sent: a subscriber may be on its way.
        if self.faults.loses_next() || sockets.publisher.subscribers() == 0 {
            return unseen.until_message(clears);
        }
        sockets.publisher.send(&replay::message(sequence, payload));
        unseen.told(clears);
    }

    /// Keeps the changes for whoever asks.
    fn keep(&self, polled: &PolledEvents, changes: &[CacheChange]) {
        if self.faults.is_silent() {
            return self.faults.unseen.until_clear();
        }
        polled.push(changes, self.block_size, self.faults.loses_next());
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

// === impl EventSource ===

impl EventSource {
    /// One entry of `GET /kv_event_sources`.
    pub(crate) fn told(&self) -> Value {
        json!({
            "enable_kv_cache_events": true, "publisher": "zmq", "endpoint": announced(&self.address),
            "replay_endpoint": self.replay_address.as_ref().map(announced),
            "buffer_steps": replay::REMEMBERED_BATCHES, "hwm": HIGH_WATER_MARK, "max_queue_size": HIGH_WATER_MARK,
            "topic": TOPIC,
        })
    }
}

fn resolve(endpoint: &EventEndpoint, http_host: IpAddr) -> Option<Endpoint> {
    match endpoint {
        EventEndpoint::Auto => Some(Endpoint::new(http_host.to_string(), 0)),
        EventEndpoint::None => None,
        EventEndpoint::Address(address) => Some(address.clone()),
    }
}

/// The address of a rank, where that of the first one is known. Any free port is what port 0 stays.
fn behind(first: Endpoint, rank: u32) -> Endpoint {
    match first.port() {
        0 => first,
        port => Endpoint::new(first.host(), port.saturating_add(u16::try_from(rank).unwrap_or(u16::MAX))),
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
