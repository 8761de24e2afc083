//! Where a worker's events are, and whether somebody is there.

use std::time::Duration;

use kvroute_core::DpRank;
use kvroute_engine::Probe;
use kvroute_engine::events::{EventAddress, EventTap, Heard, check_replay};
use kvroute_router::config::EventEndpoint;
use kvroute_zmtp::Endpoint;
use tokio::time::{Instant, timeout_at};

use super::collected::{HeardEvents, StreamCheck};
use super::subjects::Settings;

/// Engines publish what they stored with the step that stored it.
const PATIENCE: Duration = Duration::from_secs(3);

/// One rank's stream, open where somebody is there.
pub(super) struct OpenStream {
    check: StreamCheck,
    tap: Option<EventTap>,
}

/// Where a rank's events and replay are.
struct Addresses {
    dp_rank: DpRank,
    events: EventAddress,
    replay: Option<Endpoint>,
    topic: String,
}

/// Opens every stream that a router with these settings would follow.
pub(super) async fn open(probe: &Probe, settings: &Settings) -> Vec<OpenStream> {
    let ranks = settings.dp_ranks.unwrap_or(probe.dp_ranks);
    let addresses = (0..ranks).filter_map(|rank| addresses(probe, settings, DpRank::new(rank)));
    futures_util::future::join_all(addresses.map(OpenStream::open)).await
}

/// As the router finds them.
fn addresses(probe: &Probe, settings: &Settings, dp_rank: DpRank) -> Option<Addresses> {
    let announced = probe.events.iter().find(|announced| announced.dp_rank == dp_rank);
    let shifted = |base: &Endpoint| {
        let shift = u16::try_from(dp_rank.get()).unwrap_or(u16::MAX);
        Endpoint::new(base.host(), base.port().saturating_add(shift))
    };
    let events = match &settings.kv_events {
        EventEndpoint::None => return None,
        EventEndpoint::Auto => announced?.events.clone(),
        EventEndpoint::Connect(endpoint) => EventAddress::Connect(shifted(endpoint)),
        EventEndpoint::Bind(endpoint) => EventAddress::Bind(shifted(endpoint)),
    };
    let replay = match &settings.kv_replay {
        EventEndpoint::Auto => announced.and_then(|announced| announced.replay.clone()),
        EventEndpoint::Connect(endpoint) => Some(shifted(endpoint)),
        EventEndpoint::None | EventEndpoint::Bind(_) => None,
    };
    let topic = announced.map(|announced| announced.topic.clone()).unwrap_or_default();
    Some(Addresses { dp_rank, events, replay, topic })
}

// === impl OpenStream ===

impl OpenStream {
    async fn open(addresses: Addresses) -> Self {
        let Addresses { dp_rank, events: address, replay, topic } = addresses;
        let is_polled = matches!(address, EventAddress::Poll { .. });
        let tap = if is_polled { None } else { Some(EventTap::open(&address, &topic).await) };
        let (tap, live) = match tap {
            None => (None, Ok(())),
            Some(Ok(tap)) => (Some(tap), Ok(())),
            Some(Err(error)) => (None, Err(error.to_string())),
        };
        let replay = match replay {
            Some(endpoint) => {
                let answer = check_replay(&endpoint).await;
                Some(answer.map_err(|error| format!("{endpoint}: {error}")))
            }
            None => None,
        };
        Self { check: StreamCheck { dp_rank, address, live, replay, heard: None }, tap }
    }

    /// Listens until blocks were stored or patience is over.
    pub(super) async fn listen(mut self) -> StreamCheck {
        let Some(mut tap) = self.tap.take() else { return self.check };
        let (until, mut heard) = (Instant::now() + PATIENCE, HeardEvents::default());
        while heard.blocks == 0 {
            match timeout_at(until, tap.next()).await {
                Ok(Ok(event)) => heard.hear(&event),
                Ok(Err(error)) => {
                    self.check.live = Err(error.to_string());
                    break;
                }
                Err(_) => break,
            }
        }
        self.check.heard = Some(heard);
        self.check
    }

    /// What is known without listening.
    pub(super) fn unheard(self) -> StreamCheck {
        self.check
    }
}

// === impl HeardEvents ===

impl HeardEvents {
    fn hear(&mut self, event: &Heard) {
        self.messages += 1;
        let batch = match event {
            Heard::Batch { batch, .. } => batch,
            Heard::Foreign { .. } => {
                self.unreadable += 1;
                return;
            }
        };
        self.unreadable += batch.undecodable;
        for event in &batch.events {
            if let kvroute_core::KvEvent::Stored(stored) = event {
                self.blocks += stored.hashes.len() as u64;
                self.block_size = Some(stored.block_size);
            }
        }
    }
}
