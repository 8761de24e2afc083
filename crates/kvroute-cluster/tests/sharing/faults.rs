//! What happens when the server, the network or a replica cannot keep up.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kvroute_cluster::Timing;
use kvroute_cluster::message::{Body, decode};
use kvroute_core::{MessageResult, SequenceHash, SharingState};
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};

use super::log;
use super::outsider::Outsider;
use super::relay::Relay;
use super::replica::{Replica, acquainted, domain, hashes, timing, until};
use super::server::{self, Server, free_port};

/// Teaches as a router under load does, on a thread of its own: a call that waits would stop it.
struct Load {
    calls: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

/// Accepts and closes connections where a server was.
struct ClosedDoor {
    knocks: Arc<AtomicU64>,
    tasks: JoinSet<()>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_is_killed_under_load_costs_updates_and_nothing_else() {
    if !server::is_there() {
        return;
    }
    log::capture();
    let mut server = Server::start().await;
    let (a, b) = (Arc::new(Replica::at(&server)), Replica::at(&server));
    acquainted(&[&a, &b]).await;
    let load = Load::on(&a);
    until("updates are sent", || a.watch.sent() > 100).await;
    assert_eq!(a.watch.dropped(), 0);

    server.kill();
    a.until_degraded().await;
    b.until_degraded().await;
    let (calls, dropped) = (load.calls(), a.watch.dropped());
    until("requests go on", || load.calls() > calls + 500).await;
    until("what cannot be sent is dropped and counted", || a.watch.dropped() > dropped + 300).await;

    server.restart().await;
    a.until_on().await;
    b.until_on().await;
    load.stop();
    learned_again(&a, &b).await;
    learned_again(&b, &a).await;
    assert!(log::warnings(&server.name()) >= 2, "each replica says that the connection was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn there_is_one_warning_for_each_try_to_connect() {
    if !server::is_there() {
        return;
    }
    log::capture();
    let mut server = Server::start().await;
    let a = Arc::new(Replica::at(&server));
    a.until_on().await;
    let load = Load::on(&a);
    server.kill();
    a.until_degraded().await;
    until("the loss is logged", || log::warnings(&server.name()) > 0).await;
    let door = ClosedDoor::at(server.port()).await;
    until("it has knocked often", || door.knocks() >= 6).await;
    let knocks = door.close().await;
    let turned_away = || {
        let warnings = log::with(&format!("server={} ", server.name()));
        let warnings = warnings.iter().filter(|entry| entry.is_warning());
        warnings.filter(|entry| entry.text.contains("no NATS server")).count() as u64
    };
    // The client itself tries once, at the moment of the loss, which has a warning already.
    until("every try has its warning", || turned_away() + 1 >= knocks).await;
    load.stop();
    assert!(turned_away() <= knocks, "{} warnings for {knocks} tries", turned_away());
    assert!(a.watch.dropped() > 0);
}

#[tokio::test]
async fn a_server_that_is_absent_at_the_start_is_found_later() {
    if !server::is_there() {
        return;
    }
    log::capture();
    let (port, silent) = (free_port(), free_port());
    let url = format!("nats://127.0.0.1:{port}");
    let a = Replica::with(&url, timing(), domain(), &[]);
    let b = Replica::with(&format!("nats://127.0.0.1:{silent},{url}"), timing(), domain(), &[]);
    assert_eq!(a.watch.states(), [SharingState::Degraded]);
    a.learn(&hashes(1, 3));
    assert_eq!(a.watch.dropped(), 1);
    until("it says so", || log::warnings(&format!("127.0.0.1:{port}")) > 1).await;
    let _server = Server::at(port, "").await;
    acquainted(&[&a, &b]).await;
    learned_again(&a, &b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replica_that_is_held_up_loses_updates_but_not_its_connection() {
    if !server::is_there() {
        return;
    }
    log::capture();
    let server = Server::start().await;
    let (a, b) = (Replica::at(&server), Replica::at(&server));
    acquainted(&[&a, &b]).await;
    let mut outsider = Outsider::at(&server).await;
    b.watch.hold();
    for seed in 0..4_000 {
        a.learn(&hashes(seed, 2));
    }
    let last = hashes(5_000, 3);
    a.learn(&last);
    let is_last = |bytes: &bytes::Bytes| match decode(bytes).unwrap().body {
        Body::Update { hashes, .. } if hashes.to_vec() == last => Some(()),
        _ => None,
    };
    outsider.next_broadcast(is_last).await;
    b.watch.release();
    until("the next update shows the loss", || {
        a.learn(&hashes(rand::random::<u32>().into(), 2));
        b.watch.received(MessageResult::Lost) > 0
    })
    .await;
    recovered(&b).await;
    assert_eq!((a.watch.dropped(), b.watch.dropped()), (0, 0));
    assert_eq!(log::warnings(&server.name()), 0, "no connection was lost");
}

#[tokio::test]
async fn a_replica_that_the_server_cuts_off_for_being_slow_comes_back() {
    if !server::is_there() {
        return;
    }
    let server = Server::with("max_payload: 65536\nmax_pending: 65536\nwrite_deadline: \"100ms\"").await;
    let relay = Relay::to(server.port()).await;
    let a = Replica::at(&server);
    let b = Replica::with(&relay.url(), timing(), domain(), &[]);
    acquainted(&[&a, &b]).await;
    relay.stand_still();
    // Far more than the buffers of server, relay and kernel hold together.
    for seed in 1000..1800 {
        let sent = a.watch.sent();
        a.learn(&hashes(seed, 4096));
        until("it is sent", || a.watch.sent() > sent).await;
    }
    relay.flow();
    recovered(&b).await;
    learned_again(&a, &b).await;
    assert_eq!(a.watch.dropped(), 0, "one slow replica does not hold up another");
}

#[tokio::test]
async fn a_flood_is_dropped_and_counted_and_what_comes_after_it_arrives() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let relay = Relay::to(server.port()).await;
    let a = Replica::with(&relay.url(), timing(), domain(), &[]);
    let b = Replica::at(&server);
    acquainted(&[&a, &b]).await;
    relay.stand_still();
    let many = hashes(5, 4096);
    // 320 MiB: sockets, relay and client take some, the queue 4 MiB.
    for _ in 0..10_000 {
        a.sharing.taught(&many);
    }
    until("the queue is full", || a.watch.dropped() > 5_000).await;
    relay.flow();
    recovered(&a).await;
    learned_again(&a, &b).await;
    let arrived = b.watch.received(MessageResult::Ok) + b.watch.received(MessageResult::Lost);
    assert!(arrived + a.watch.dropped() >= 10_000, "each is sent or counted");
}

#[tokio::test]
async fn what_waits_when_the_connection_ends_is_counted() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let relay = Relay::to(server.port()).await;
    let alone = Timing { announce: Duration::from_secs(3600), ..timing() };
    let a = Replica::with(&relay.url(), alone, domain(), &[]);
    a.until_on().await;
    until("it has said that it is there", || a.watch.sent() > 0).await;
    relay.stand_still();
    let (before, many) = (a.watch.sent(), hashes(5, 4096));
    for _ in 0..1_000 {
        a.sharing.taught(&many);
    }
    until("the queue is full", || a.watch.dropped() > 0).await;
    drop(relay);
    until("every update is sent or counted", || a.watch.sent() - before + a.watch.dropped() == 1_000).await;
    a.sharing.taught(&many);
    assert_eq!(
        a.watch.sent() - before + a.watch.dropped(),
        1_001,
        "without a connection it is dropped at once"
    );
}

/// The client would reconnect by itself and say nothing.
#[tokio::test]
async fn a_connection_that_is_cut_is_noticed_although_the_server_is_there() {
    if !server::is_there() {
        return;
    }
    log::capture();
    let server = Server::start().await;
    let relay = Relay::to(server.port()).await;
    let (a, b) = (Replica::with(&relay.url(), timing(), domain(), &[]), Replica::at(&server));
    acquainted(&[&a, &b]).await;
    relay.cut();
    recovered(&a).await;
    assert_eq!(log::warnings(relay.url().trim_start_matches("nats://")), 1);
    learned_again(&a, &b).await;
    learned_again(&b, &a).await;
}

#[tokio::test]
async fn a_connection_that_falls_silent_is_given_up() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let relay = Relay::to(server.port()).await;
    let a = Replica::with(
        &relay.url(),
        Timing { peer_silence: Duration::from_secs(1), ..timing() },
        domain(),
        &[],
    );
    let b = Replica::at(&server);
    acquainted(&[&a, &b]).await;
    relay.stand_still();
    a.until_peers(0).await;
    a.until_degraded().await;
    relay.flow();
    acquainted(&[&a, &b]).await;
}

/// Teaches one replica something new until the other one has learned some of it.
async fn learned_again(teacher: &Replica, learner: &Replica) {
    let mut taught: Vec<Vec<SequenceHash>> = Vec::new();
    until("an update arrives", || {
        taught.push(hashes(rand::random::<u32>().into(), 2));
        teacher.learn(&taught[taught.len() - 1]);
        taught.iter().any(|hashes| learner.knows(hashes))
    })
    .await;
}

/// It was whole, then degraded, and is whole again.
async fn recovered(replica: &Replica) {
    let expected = [SharingState::On, SharingState::Degraded, SharingState::On];
    until("the sharing recovers", || replica.watch.states().ends_with(&expected)).await;
}

// === impl Load ===

impl Load {
    fn on(replica: &Arc<Replica>) -> Self {
        let (calls, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (load, replica) = (Self { calls: calls.clone(), stop: stop.clone() }, Arc::clone(replica));
        let _ends_with_the_test = spawn_blocking(move || {
            for seed in 1_000_000.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                replica.learn(&hashes(seed, 20));
                calls.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        load
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

// === impl ClosedDoor ===

impl ClosedDoor {
    async fn at(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let knocks = Arc::<AtomicU64>::default();
        let (counted, mut tasks) = (Arc::clone(&knocks), JoinSet::new());
        tasks.spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { knocks, tasks }
    }

    fn knocks(&self) -> u64 {
        self.knocks.load(Ordering::Relaxed)
    }

    async fn close(mut self) -> u64 {
        self.tasks.shutdown().await;
        self.knocks()
    }
}
