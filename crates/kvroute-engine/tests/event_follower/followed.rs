//! A running follower, and what it has said so far.

use kvroute_core::{DpRank, EngineHash, KvEvent, LastMessage, SourceState, WorkerId, WorkerRank};
use kvroute_engine::events::{
    BlockSizeClaim, EventAddress, EventFollower, EventStream, SourceChange, SourceIncident, SourceReason,
    SourceStatus, SourceUpdate,
};
use kvroute_zmtp::Endpoint;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// A batch that removes one block, named by a number.
pub(crate) fn payload(mark: u64) -> Vec<u8> {
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_f64(&mut out, 0.5).unwrap();
    rmp::encode::write_array_len(&mut out, 1).unwrap();
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_str(&mut out, "BlockRemoved").unwrap();
    rmp::encode::write_array_len(&mut out, 1).unwrap();
    rmp::encode::write_uint(&mut out, mark).unwrap();
    out
}

pub(crate) fn stream(events: EventAddress, replay: Option<&str>) -> EventStream {
    EventStream {
        rank: WorkerRank::new(WorkerId::new("w0"), DpRank::new(0)),
        events,
        replay: replay.map(|endpoint| endpoint.parse().unwrap()),
        topic: "kv-events".to_owned(),
        resume: None,
        start_time_url: None,
        block_size: BlockSizeClaim::Unknown,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A running follower and what it has said so far.
pub(crate) struct Followed {
    pub(crate) updates: mpsc::Receiver<SourceUpdate>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: JoinSet<()>,
    /// Marks of the batches applied since the last clear.
    pub(crate) applied: Vec<u64>,
    pub(crate) position: Option<LastMessage>,
    pub(crate) clears: usize,
    pub(crate) status: Option<SourceStatus>,
    pub(crate) incidents: Vec<SourceIncident>,
    pub(crate) bound_to: Option<Endpoint>,
}

impl Followed {
    pub(crate) async fn start(events: EventAddress, replay: Option<&str>) -> Self {
        Self::follow(stream(events, replay)).await
    }

    pub(crate) async fn follow(stream: EventStream) -> Self {
        let follower = EventFollower::open(stream).await.unwrap();
        let bound_to = follower.bound_to();
        let (sender, updates) = mpsc::channel(4);
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(follower.run(sender, stop.clone()));
        Self {
            updates,
            stop,
            tasks,
            applied: Vec::new(),
            position: None,
            clears: 0,
            status: None,
            incidents: Vec::new(),
            bound_to,
        }
    }

    pub(crate) async fn connect(events: &str, replay: Option<&str>) -> Self {
        Self::start(EventAddress::Connect(events.parse().unwrap()), replay).await
    }

    pub(crate) async fn take_one(&mut self) {
        match self.updates.recv().await.expect("the follower ended").change {
            SourceChange::Clear => {
                self.applied.clear();
                self.clears += 1;
            }
            SourceChange::Apply { batch, position } => {
                self.applied.extend(batch.events.iter().map(mark_of));
                self.position = position;
            }
            SourceChange::Status(status) => self.status = Some(status),
            SourceChange::Incident(incident) => self.incidents.push(incident),
        }
    }

    pub(crate) async fn until(&mut self, is_reached: impl Fn(&Self) -> bool) {
        while !is_reached(self) {
            self.take_one().await;
        }
    }

    pub(crate) async fn until_exact(&mut self) {
        self.until(|followed| followed.status.is_some_and(|status| status.state == SourceState::Exact)).await;
    }

    pub(crate) async fn until_reason(&mut self, reason: SourceReason) {
        self.until(|followed| followed.status.is_some_and(|status| status.reason == Some(reason))).await;
    }

    pub(crate) async fn until_applied(&mut self, marks: &[u64]) {
        self.until(|followed| followed.applied == marks).await;
    }

    /// Ends as a shutdown would: returns only when its tasks are over.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The block that an event names.
fn mark_of(event: &KvEvent) -> u64 {
    let hashes = match event {
        KvEvent::Removed { hashes, .. } => hashes,
        KvEvent::Stored(stored) => &stored.hashes,
        KvEvent::Cleared | KvEvent::Moved { .. } => panic!("{event:?}"),
    };
    match hashes[..] {
        [EngineHash::Int(mark)] => mark,
        _ => panic!("{hashes:?}"),
    }
}
