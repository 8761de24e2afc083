//! A follower on real sockets: against libzmq where `KVROUTE_PYTHON` names a Python with `pyzmq`, and against this
//! workspace's own sockets always.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../kvroute-zmtp/tests/support/peer.rs"]
mod peer;

use bytes::Bytes;
use kvroute_core::{DpRank, EngineHash, KvEvent, SourceState, WorkerId, WorkerRank};
use kvroute_engine::events::{
    EventAddress, EventFollower, EventStream, SourceChange, SourceIncident, SourceReason, SourceStatus,
    SourceUpdate,
};
use kvroute_zmtp::{Endpoint, Publisher, Router};
use peer::{Peer, python};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const ANY: &str = "tcp://127.0.0.1:*";

/// A batch that removes one block, named by a number.
fn payload(mark: u64) -> Vec<u8> {
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A running follower and what it has said so far.
struct Followed {
    updates: mpsc::Receiver<SourceUpdate>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    /// Marks of the batches applied since the last clear.
    applied: Vec<u64>,
    clears: usize,
    status: Option<SourceStatus>,
    incidents: Vec<SourceIncident>,
    bound_to: Option<Endpoint>,
}

impl Followed {
    async fn start(events: EventAddress, replay: Option<&str>) -> Self {
        let rank = WorkerRank::new(WorkerId::new("w0"), DpRank::new(0));
        let replay = replay.map(|endpoint| endpoint.parse().unwrap());
        let stream = EventStream { rank, events, replay, topic: "kv-events".to_owned() };
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
            clears: 0,
            status: None,
            incidents: Vec::new(),
            bound_to,
        }
    }

    async fn connect(events: &str, replay: Option<&str>) -> Self {
        Self::start(EventAddress::Connect(events.parse().unwrap()), replay).await
    }

    async fn take_one(&mut self) {
        match self.updates.recv().await.expect("the follower ended").change {
            SourceChange::Clear => {
                self.applied.clear();
                self.clears += 1;
            }
            SourceChange::Apply(batch) => match &batch.events[..] {
                [KvEvent::Removed { hashes, .. }] => match hashes[..] {
                    [EngineHash::Int(mark)] => self.applied.push(mark),
                    _ => panic!("{hashes:?}"),
                },
                other => panic!("{other:?}"),
            },
            SourceChange::Status(status) => self.status = Some(status),
            SourceChange::Incident(incident) => self.incidents.push(incident),
        }
    }

    async fn until(&mut self, is_reached: impl Fn(&Self) -> bool) {
        while !is_reached(self) {
            self.take_one().await;
        }
    }

    async fn until_exact(&mut self) {
        self.until(|followed| followed.status.is_some_and(|status| status.state == SourceState::Exact)).await;
    }

    async fn until_reason(&mut self, reason: SourceReason) {
        self.until(|followed| followed.status.is_some_and(|status| status.reason == Some(reason))).await;
    }

    async fn until_applied(&mut self, marks: &[u64]) {
        self.until(|followed| followed.applied == marks).await;
    }

    /// Ends as a shutdown would: returns only when its tasks are over.
    async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn publish(engine: &mut Peer, verb: &str, sequence: u64, mark: u64) {
    engine.command(&format!("{verb} {sequence} {}", hex(&payload(mark)))).await;
}

#[tokio::test]
async fn follows_an_engine_through_loss_crash_and_restart() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    for sequence in 0..3 {
        publish(&mut engine, "publish", sequence, sequence).await;
    }
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_applied(&[0, 1, 2]).await;
    followed.until_exact().await;

    publish(&mut engine, "lose", 3, 3).await;
    publish(&mut engine, "publish", 4, 4).await;
    followed.until_applied(&[0, 1, 2, 3, 4]).await;
    followed.until_exact().await;
    assert_eq!(followed.clears, 0);

    engine.kill().await;
    let (mut engine, ..) = Peer::engine(&python, &[&events, &replay]).await;
    for sequence in 0..7 {
        publish(&mut engine, "publish", sequence, 100 + sequence).await;
    }
    followed.until_applied(&[100, 101, 102, 103, 104, 105, 106]).await;
    followed.until_exact().await;
    assert_eq!(followed.clears, 1);
    assert!(followed.incidents.contains(&SourceIncident::Gap), "{:?}", followed.incidents);
    let restarts = followed.incidents.iter().filter(|incident| **incident == SourceIncident::Restart);
    assert_eq!(restarts.count(), 1);
    followed.stop().await;
}

#[tokio::test]
async fn waits_for_an_engine_that_does_not_exist_yet() {
    let Some(python) = python() else { return };
    let (engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    engine.kill().await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.take_one().await;

    let (mut engine, ..) = Peer::engine(&python, &[&events, &replay]).await;
    publish(&mut engine, "publish", 0, 7).await;
    followed.until_applied(&[7]).await;
    followed.until_exact().await;
    followed.stop().await;
}

#[tokio::test]
async fn an_engine_that_forgot_is_degraded_by_name() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    publish(&mut engine, "publish", 0, 0).await;
    engine.command("forget").await;
    publish(&mut engine, "publish", 1, 1).await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_applied(&[1]).await;
    followed.until_reason(SourceReason::ReplayTooShort).await;
    followed.stop().await;
}

#[tokio::test]
async fn a_publisher_may_connect_to_us() {
    let Some(python) = python() else { return };
    let bind = EventAddress::Bind("tcp://127.0.0.1:0".parse().unwrap());
    let mut followed = Followed::start(bind, None).await;
    let ours = format!("connect:{}", followed.bound_to.clone().unwrap());

    for process in [100, 200] {
        let (mut engine, ..) = Peer::engine(&python, &[&ours, "-"]).await;
        // A subscription takes effect some time after the connection; numbers before it are lost, as in life.
        let mut sequence = 0;
        let is_heard = |followed: &Followed| followed.applied.last() >= Some(&process);
        while !is_heard(&followed) {
            publish(&mut engine, "publish", sequence, process + sequence).await;
            sequence += 1;
            let heard = followed.until(is_heard);
            let _ = tokio::time::timeout(std::time::Duration::from_millis(50), heard).await;
        }
        // Far enough that the second process, whose first numbers are lost too, cannot seem to continue this one.
        for later in sequence..sequence + 50 {
            publish(&mut engine, "publish", later, process + later).await;
        }
        followed.until(|followed| followed.applied.last() == Some(&(process + sequence + 49))).await;
        engine.kill().await;
    }
    assert!(followed.applied.iter().all(|mark| *mark >= 200), "{:?}", followed.applied);
    assert_eq!(followed.clears, 1);
    followed.stop().await;
}

#[tokio::test]
async fn a_flood_on_a_slow_router_loses_nothing_unnoticed() {
    let Some(python) = python() else { return };
    let (mut engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_exact().await;
    // Junk payloads still move the sequence on; the follower holds 4 updates and nobody takes them meanwhile.
    engine.command("flood 20000 1000").await;
    let mut batches = 0;
    while batches < 20_000 {
        let update = followed.updates.recv().await.unwrap();
        if let SourceChange::Apply(batch) = update.change {
            assert_eq!(batch.undecodable, 1);
            batches += 1;
        }
    }
    followed.stop().await;
}

#[tokio::test]
async fn a_missing_replay_socket_is_named() {
    let publisher = Publisher::bind(&"tcp://127.0.0.1:0".parse().unwrap(), 100).await.unwrap();
    let events = Endpoint::from(publisher.local_addr()).to_string();
    let nobody = Router::bind(&"tcp://127.0.0.1:0".parse().unwrap()).await.unwrap();
    let replay = Endpoint::from(nobody.local_addr()).to_string();
    nobody.close().await;

    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_reason(SourceReason::ReplayFailed).await;
    followed.stop().await;
}

#[tokio::test]
async fn joins_late_by_replay_while_live_messages_wait() {
    let publisher = Publisher::bind(&"tcp://127.0.0.1:0".parse().unwrap(), 100).await.unwrap();
    let mut router = Router::bind(&"tcp://127.0.0.1:0".parse().unwrap()).await.unwrap();
    let events = Endpoint::from(publisher.local_addr()).to_string();
    let replay = Endpoint::from(router.local_addr()).to_string();
    let mut followed = Followed::connect(&events, Some(&replay)).await;

    let (peer, request) = router.receive().await;
    assert_eq!(request, [Bytes::new(), Bytes::copy_from_slice(&0_u64.to_be_bytes())]);
    while publisher.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    let message = |sequence: u64| {
        let number = Bytes::copy_from_slice(&sequence.to_be_bytes());
        vec![Bytes::from_static(b"kv-events"), number, Bytes::from(payload(sequence))]
    };
    publisher.send(&message(2));
    for sequence in 0..2 {
        assert!(router.send(peer, [vec![Bytes::new()], message(sequence)].concat()).await);
    }
    let end = vec![Bytes::new(), Bytes::new(), Bytes::copy_from_slice(&[0xff; 8]), Bytes::new()];
    assert!(router.send(peer, end.clone()).await);
    followed.until(|followed| followed.applied.len() >= 2).await;
    // The live message may arrive after the end of the replay; then it is simply the next one.
    followed.until_applied(&[0, 1, 2]).await;
    followed.until_exact().await;
    followed.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_never_comes_is_blind() {
    let nobody = Publisher::bind(&"tcp://127.0.0.1:0".parse().unwrap(), 1).await.unwrap();
    let events = Endpoint::from(nobody.local_addr()).to_string();
    nobody.close().await;
    let mut followed = Followed::connect(&events, None).await;
    followed.until(|followed| followed.status.is_some_and(|status| status.state == SourceState::Blind)).await;
    assert_eq!(followed.status.unwrap().reason, Some(SourceReason::NotConnected));
    followed.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_an_error_before_anything_runs() {
    let taken = Publisher::bind(&"tcp://127.0.0.1:0".parse().unwrap(), 1).await.unwrap();
    let endpoint = Endpoint::from(taken.local_addr());
    let rank = WorkerRank::new(WorkerId::new("w0"), DpRank::new(0));
    let stream = EventStream {
        rank,
        events: EventAddress::Bind(endpoint.clone()),
        replay: None,
        topic: String::new(),
    };
    let error = EventFollower::open(stream).await.unwrap_err();
    assert!(error.to_string().contains(&endpoint.to_string()), "{error}");
}
