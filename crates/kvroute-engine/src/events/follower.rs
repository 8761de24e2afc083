//! Runs the state machine of one rank's event stream on real sockets.
//!
//! Everything is bounded: the live channel, the replay and the updates each have a short queue, and a router that
//! falls behind stops reading. TCP then stops the engine's publisher, which drops by its own high-water mark, and
//! the gap is replayed once the router has caught up. Nothing is lost without being noticed.

use std::time::Duration;

use kvroute_core::{EventBatch, WorkerRank};
use kvroute_zmtp::{Endpoint, Listener, ZmtpError};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::link::{LinkEvent, Way, keep_subscribed};
use super::replay::{ReplayEvent, replay};
use super::{Source, SourceAction, SourceIncident, SourceStatus};

/// Messages that wait between a socket and the state machine.
const QUEUE: usize = 64;
/// How often the state is looked at when nothing happens.
const TICK: Duration = Duration::from_secs(1);

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
}

/// Who connects to whom on the event socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventAddress {
    /// The engine is bound there.
    Connect(Endpoint),
    /// The engine connects to this address of ours.
    Bind(Endpoint),
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
    Apply(EventBatch),
    /// The source's state is another one now.
    Status(SourceStatus),
    /// Something to count.
    Incident(SourceIncident),
}

/// Follows one rank's event stream. Opened before it runs, so that a taken port is an error at the start.
#[derive(Debug)]
pub struct EventFollower {
    stream: EventStream,
    way: Way,
}

// === impl EventFollower ===

impl EventFollower {
    /// Binds where the engine is to connect to us; does not wait for any engine.
    ///
    /// # Errors
    /// The address to bind is taken or not ours.
    pub async fn open(stream: EventStream) -> Result<Self, ZmtpError> {
        let way = match &stream.events {
            EventAddress::Connect(endpoint) => Way::Connect(endpoint.clone()),
            EventAddress::Bind(endpoint) => Way::Accept(Listener::bind(endpoint).await?),
        };
        Ok(Self { stream, way })
    }

    /// The address that the engine must connect to; `None` when it is bound itself.
    pub fn bound_to(&self) -> Option<Endpoint> {
        match &self.way {
            Way::Connect(_) => None,
            Way::Accept(listener) => Some(listener.local_addr().into()),
        }
    }

    /// Sends updates until told to stop or until nobody receives them. The first update is the state.
    pub async fn run(self, updates: mpsc::Sender<SourceUpdate>, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let (link_sender, link) = mpsc::channel(QUEUE);
        tasks.spawn(keep_subscribed(self.way, self.stream.topic.clone(), link_sender));
        let started = Instant::now();
        let mut driver = Driver {
            source: Source::new(self.stream.replay.is_some(), Duration::ZERO),
            stream: self.stream,
            updates,
            started,
            status: None,
            tasks,
            link,
            replay: None,
        };
        let _ = stop.run_until_cancelled(driver.run()).await;
        driver.tasks.shutdown().await;
    }
}

/// The updates have no receiver any more.
struct Unheard;

struct Driver {
    stream: EventStream,
    source: Source,
    updates: mpsc::Sender<SourceUpdate>,
    started: Instant,
    status: Option<SourceStatus>,
    /// The live channel and replays.
    tasks: JoinSet<()>,
    link: mpsc::Receiver<LinkEvent>,
    replay: Option<RunningReplay>,
}

struct RunningReplay {
    task: AbortHandle,
    events: mpsc::Receiver<ReplayEvent>,
}

// === impl Driver ===

impl Driver {
    async fn run(&mut self) -> Result<(), Unheard> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut actions = Vec::new();
        loop {
            tokio::select! {
                Some(event) = self.link.recv() => self.take_link_event(event, &mut actions),
                event = next_event(&mut self.replay) => self.take_replay_event(event, &mut actions),
                Some(_) = self.tasks.join_next() => {}
                _ = tick.tick() => {}
            }
            for action in actions.drain(..) {
                self.carry_out(action).await?;
            }
            self.tell_status().await?;
        }
    }

    fn take_link_event(&mut self, event: LinkEvent, actions: &mut Vec<SourceAction>) {
        match event {
            LinkEvent::Connected => self.source.connected(actions),
            LinkEvent::Batch { sequence, payload } => self.source.live(sequence, payload, actions),
            LinkEvent::Disconnected => {
                self.source.disconnected(self.started.elapsed());
                actions.push(SourceAction::Count(SourceIncident::Disconnected));
            }
        }
    }

    fn take_replay_event(&mut self, event: ReplayEvent, actions: &mut Vec<SourceAction>) {
        match event {
            ReplayEvent::Batch { sequence, payload } => self.source.replayed(sequence, &payload, actions),
            ReplayEvent::Ended => {
                self.replay = None;
                self.source.replay_ended(actions);
            }
            ReplayEvent::Failed => {
                self.replay = None;
                self.source.replay_failed(actions);
            }
        }
    }

    async fn carry_out(&mut self, action: SourceAction) -> Result<(), Unheard> {
        match action {
            SourceAction::Clear => self.send(SourceChange::Clear).await,
            SourceAction::Apply(batch) => self.send(SourceChange::Apply(batch)).await,
            SourceAction::Count(incident) => self.send(SourceChange::Incident(incident)).await,
            SourceAction::RequestReplay { from } => {
                self.start_replay(from);
                Ok(())
            }
        }
    }

    fn start_replay(&mut self, from: u64) {
        if let Some(running) = self.replay.take() {
            running.task.abort();
        }
        let Some(endpoint) = self.stream.replay.clone() else { return };
        let (sender, events) = mpsc::channel(QUEUE);
        let task = self.tasks.spawn(replay(endpoint, from, sender));
        self.replay = Some(RunningReplay { task, events });
    }

    async fn tell_status(&mut self) -> Result<(), Unheard> {
        let status = self.source.status(self.started.elapsed());
        if self.status == Some(status) {
            return Ok(());
        }
        self.status = Some(status);
        self.send(SourceChange::Status(status)).await
    }

    async fn send(&self, change: SourceChange) -> Result<(), Unheard> {
        let update = SourceUpdate { rank: self.stream.rank.clone(), change };
        self.updates.send(update).await.map_err(|_| Unheard)
    }
}

/// Pends while no replay runs; a replay that ends without a last word has failed.
async fn next_event(replay: &mut Option<RunningReplay>) -> ReplayEvent {
    match replay {
        Some(running) => running.events.recv().await.unwrap_or(ReplayEvent::Failed),
        None => std::future::pending().await,
    }
}
