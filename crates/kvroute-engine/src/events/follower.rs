//! Runs the state machine of one rank's event stream on real sockets, or polls where there are none.
//!
//! Everything is bounded: the live channel, the replay and the updates each have a short queue, and a router that
//! falls behind stops reading. TCP then stops the engine's publisher, which drops by its own high-water mark, and
//! the gap is replayed once the router has caught up. Nothing is lost without being noticed.

mod driver;
mod poller;
mod reporter;

use kvroute_core::{EventBatch, LastMessage, WorkerRank};
use kvroute_zmtp::{Endpoint, Listener, ZmtpError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::link::Way;
use super::{BlockSizeClaim, SourceIncident, SourceStatus};
use crate::tls::UpstreamTls;

/// Where one rank's events come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventStream {
    /// Whose cache the events describe.
    pub rank: WorkerRank,
    /// The event socket.
    pub events: EventAddress,
    /// The replay socket, where the engine has one.
    pub replay: Option<Endpoint>,
    /// Prefix of the topics to subscribe to; empty for all.
    pub topic: String,
    /// Where the index was restored from a snapshot: the last message that it had applied.
    pub resume: Option<LastMessage>,
    /// Base address at which `/metrics` says when the engine was started, where it does. It shows a restart that the
    /// numbers of the events did not show.
    pub start_time_url: Option<String>,
    /// What is known of the size of its blocks beforehand.
    pub block_size: BlockSizeClaim,
}

/// Who connects to whom on the event socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventAddress {
    /// The engine is bound there.
    Connect(Endpoint),
    /// The engine connects to this address of ours.
    Bind(Endpoint),
    /// The engine keeps its events for whoever asks `/kv_cache_events` at this base address first.
    Poll {
        /// The worker's base address.
        url: String,
    },
}

/// A change of one rank, in the order in which it must be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceUpdate {
    /// Whose.
    pub rank: WorkerRank,
    /// What.
    pub change: SourceChange,
}

/// What an event stream changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceChange {
    /// Forget every block of the rank.
    Clear,
    /// Apply a batch.
    Apply {
        /// What to apply.
        batch: EventBatch,
        /// Where a snapshot of the index that has this batch may be resumed; `None` where blocks may be missing, or
        /// where the stream cannot be resumed.
        position: Option<LastMessage>,
    },
    /// The source's state is another one now.
    Status(SourceStatus),
    /// Something to count.
    Incident(SourceIncident),
}

/// Follows one rank's event stream. Opened before it runs, so that a taken port is an error at the start.
#[derive(Debug)]
pub struct EventFollower {
    stream: EventStream,
    /// `None` where events are polled.
    way: Option<Way>,
    tls: UpstreamTls,
}

// === impl EventFollower ===

impl EventFollower {
    /// Binds where the engine is to connect to us; does not wait for any engine.
    ///
    /// # Errors
    /// The address to bind is taken or not ours.
    pub async fn open(stream: EventStream) -> Result<Self, ZmtpError> {
        let way = match &stream.events {
            EventAddress::Connect(endpoint) => Some(Way::Connect(endpoint.clone())),
            EventAddress::Bind(endpoint) => Some(Way::Accept(Listener::bind(endpoint).await?)),
            EventAddress::Poll { .. } => None,
        };
        Ok(Self { stream, way, tls: UpstreamTls::default() })
    }

    /// What it asks its engine by HTTP it asks as `tls` says, where the engine's address is an `https` one.
    #[must_use]
    pub fn calling_as(self, tls: UpstreamTls) -> Self {
        Self { tls, ..self }
    }

    /// The address that the engine must connect to; `None` when it is bound itself.
    pub fn bound_to(&self) -> Option<Endpoint> {
        match &self.way {
            None | Some(Way::Connect(_)) => None,
            Some(Way::Accept(listener)) => Some(listener.local_addr().into()),
        }
    }

    /// Sends updates until told to stop or until nobody receives them. The first update is the state.
    pub async fn run(self, updates: mpsc::Sender<SourceUpdate>, stop: CancellationToken) {
        let Self { stream, way, tls } = self;
        match (way, &stream.events) {
            (Some(way), _) => driver::drive(stream, way, updates, stop, &tls).await,
            (None, EventAddress::Poll { url }) => {
                let polling = poller::poll(url.clone(), stream.rank, stream.block_size, updates, &tls);
                let _nobody_listens = stop.run_until_cancelled(polling).await;
            }
            (None, EventAddress::Connect(_) | EventAddress::Bind(_)) => {}
        }
    }
}
