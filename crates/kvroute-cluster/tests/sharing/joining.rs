//! How replicas come, go, and get what the others know already.

use std::time::Duration;

use kvroute_cluster::message::{self, Body, DomainRef, HASHES_PER_MESSAGE, Offer, Origin, PartEnd, decode};
use kvroute_cluster::{ClusterConfig, Timing};
use kvroute_core::{Blocks, MessageResult, SharingState};
use kvroute_history::Domain;

use super::outsider::{Outsider, inbox_of};
use super::relay::Relay;
use super::replica::{Replica, acquainted, domain, hashes, timing, until};
use super::server::{self, Server};

/// More than one part, in more than one shard.
const MANY: u64 = 60_000;

#[tokio::test]
async fn replicas_that_join_at_once_get_what_the_fullest_knows() {
    if !server::is_there() {
        return;
    }
    let (server, known) = (Server::start().await, hashes(1, MANY));
    let full = Replica::knowing(&server, &known);
    let half = Replica::knowing(&server, &known[..known.len() / 2]);
    acquainted(&[&full, &half]).await;
    half.until_it_knows(&known).await;
    let (c, d) = (Replica::at(&server), Replica::at(&server));
    c.until_it_knows(&known).await;
    d.until_it_knows(&known).await;
    assert_eq!(c.history.resident(), full.history.resident());
    assert_eq!(c.watch.received(MessageResult::Lost), 0);
}

#[tokio::test]
async fn a_replica_that_joins_is_answered_at_once() {
    if !server::is_there() {
        return;
    }
    let (server, known) = (Server::start().await, hashes(1, MANY));
    let seldom = Timing { announce: Duration::from_secs(3600), ..timing() };
    let a = Replica::with(&server.url(), seldom.clone(), domain(), &known);
    a.until_on().await;
    until("it has said that it is there", || a.watch.sent() > 0).await;
    let b = Replica::with(&server.url(), seldom, domain(), &[]);
    b.until_it_knows(&known).await;
}

#[tokio::test]
async fn a_replica_joins_for_each_history_when_it_is_shared() {
    if !server::is_there() {
        return;
    }
    let (server, known) = (Server::start().await, hashes(1, MANY));
    let other = Domain { model: "another".to_owned(), ..domain() };
    let a = Replica::with(&server.url(), timing(), other.clone(), &known);
    let b = Replica::at(&server);
    a.until_on().await;
    b.until_on().await;
    assert!(b.history.resident().is_zero());
    let _later = b.cluster.share(other, b.history.clone());
    b.until_it_knows(&known).await;
}

/// A replica that has asked an outsider for everything, and another one that knows it all.
async fn one_that_asked(server: &Server, patience: Duration) -> (Replica, Outsider, (Origin, u64), Replica) {
    let patient = Timing { no_offers: Duration::from_secs(3600), part_silence: patience, ..timing() };
    let mut outsider = Outsider::at(server).await;
    let asker = Replica::with(&server.url(), patient, domain(), &[]);
    asker.until_on().await;
    outsider.offer(&domain(), u64::MAX).await;
    let request = outsider.next_own(request_of).await;
    let full = Replica::knowing(server, &hashes(1, MANY));
    asker.until_peers(2).await;
    (asker, outsider, request, full)
}

#[tokio::test]
async fn a_peer_that_vanishes_in_the_middle_is_followed_by_another() {
    if !server::is_there() {
        return;
    }
    let (server, known) = (Server::start().await, hashes(1, MANY));
    let (b, outsider, (asker, transfer), _full) = one_that_asked(&server, Duration::from_secs(3600)).await;
    let (domain, first) = (domain(), hashes(9, 3));
    let part = message::part(outsider.origin, (transfer, 0), PartEnd::More, DomainRef::of(&domain), &first);
    outsider.tell(inbox_of(asker), part).await;
    b.until_it_knows(&first).await;
    assert!(!b.knows(&known));
    outsider.tell_all(message::goodbye(outsider.origin)).await;
    b.until_it_knows(&known).await;
    let late =
        message::part(outsider.origin, (transfer, 1), PartEnd::Last, DomainRef::of(&domain), &hashes(8, 3));
    outsider.tell(inbox_of(asker), late).await;
    b.until_received(MessageResult::Stale).await;
    assert!(!b.knows(&hashes(8, 3)));
}

#[tokio::test]
async fn a_peer_that_falls_silent_in_the_middle_is_followed_by_another() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let (b, _outsider, _request, _full) = one_that_asked(&server, Duration::from_secs(3)).await;
    b.until_it_knows(&hashes(1, MANY)).await;
}

#[tokio::test]
async fn a_transfer_that_a_lost_connection_ended_is_asked_for_again() {
    if !server::is_there() {
        return;
    }
    let (mut server, known) = (Server::start().await, hashes(1, MANY));
    let mut outsider = Outsider::at(&server).await;
    let b = Replica::at(&server);
    b.until_on().await;
    outsider.offer(&domain(), u64::MAX).await;
    outsider.next_own(request_of).await;
    server.kill();
    b.until_degraded().await;
    server.restart().await;
    let _full = Replica::knowing(&server, &known);
    b.until_it_knows(&known).await;
}

#[tokio::test]
async fn nobody_there_is_an_empty_start_that_waits_for_nobody() {
    if !server::is_there() {
        return;
    }
    let (server, other) = (Server::start().await, Domain { hash_scheme: "another".to_owned(), ..domain() });
    let stranger = Replica::with(&server.url(), timing(), other, &hashes(1, MANY));
    let (a, b) = (Replica::at(&server), Replica::at(&server));
    stranger.until_on().await;
    acquainted(&[&a, &b]).await;
    a.learn(&hashes(2, 3));
    b.until_it_knows(&hashes(2, 3)).await;
    assert_eq!(a.history.resident().get(), 3);
}

#[tokio::test]
async fn a_domain_that_is_not_shared_is_refused() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let a = Replica::knowing(&server, &hashes(1, 3));
    let mut outsider = Outsider::at(&server).await;
    let other = Domain { namespace_scheme: "another".to_owned(), ..domain() };
    let a_origin = introduced(&a, &outsider).await;
    let request = message::request(outsider.origin, 5, DomainRef::of(&other));
    outsider.tell(inbox_of(a_origin), request).await;
    let part = outsider.next_own(part_of).await;
    assert_eq!(part, (5, 0, PartEnd::Refused, 0));
    a.until_received(MessageResult::OtherDomain).await;
}

/// At a rate of a byte a second the second part is due in nine hours.
#[tokio::test]
async fn a_transfer_waits_for_its_rate_and_holds_up_nothing() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let slow = Timing { transfer_rate: 1.0, ..timing() };
    let a = Replica::with(&server.url(), slow, domain(), &hashes(1, MANY));
    let (mut outsider, domain) = (Outsider::at(&server).await, domain());
    let a_origin = introduced(&a, &outsider).await;
    outsider.tell(inbox_of(a_origin), message::request(outsider.origin, 5, DomainRef::of(&domain))).await;
    assert_eq!(outsider.next_own(part_of).await, (5, 0, PartEnd::More, HASHES_PER_MESSAGE));
    for seed in 10..30 {
        a.learn(&hashes(seed, 3));
        let is_update = |bytes: &bytes::Bytes| match decode(bytes).unwrap().body {
            Body::Update { hashes: update, .. } if update.to_vec() == hashes(seed, 3) => Some(()),
            _ => None,
        };
        outsider.next_broadcast(is_update).await;
    }
    assert!(outsider.has_nothing_of_its_own(), "the next part did not wait");
}

#[tokio::test]
async fn a_goodbye_is_noticed_at_once_and_a_death_after_a_while() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let never = Timing { peer_silence: Duration::from_secs(36_000), ..timing() };
    let soon = Timing { peer_silence: Duration::from_secs(2), ..timing() };
    let patient = Replica::with(&server.url(), never, domain(), &[]);
    let impatient = Replica::with(&server.url(), soon, domain(), &[]);
    let line = Relay::to(server.port()).await;
    let (polite, dropped) = (Replica::at(&server), Replica::at(&server));
    let dying = Replica::with(&line.url(), timing(), domain(), &[]);
    acquainted(&[&patient, &impatient, &polite, &dropped, &dying]).await;
    polite.cluster.stop().await;
    assert_eq!(polite.watch.state(), SharingState::Off);
    patient.until_peers(3).await;
    drop(dropped.cluster);
    patient.until_peers(2).await;
    line.stand_still();
    impatient.until_peers(1).await;
    assert_eq!(patient.watch.peers(), 2, "it waits for hours");
}

#[tokio::test]
async fn a_replica_that_was_away_for_long_asks_for_what_it_missed() {
    if !server::is_there() {
        return;
    }
    let mut server = Server::start().await;
    let away = Timing { away: Duration::from_millis(1), ..timing() };
    let b = Replica::knowing(&server, &hashes(1, 3));
    let a = Replica::with(&server.url(), away, domain(), &[]);
    a.until_it_knows(&hashes(1, 3)).await;
    server.kill();
    b.until_degraded().await;
    b.learn(&hashes(2, MANY));
    assert!(b.watch.dropped() > 0);
    server.restart().await;
    a.until_it_knows(&hashes(2, MANY)).await;
}

#[tokio::test]
async fn the_defaults_notice_a_death_within_fifteen_seconds() {
    let Timing { announce, peer_silence, beat, .. } = ClusterConfig::at("").timing;
    assert!(peer_silence + beat <= Duration::from_secs(15));
    assert!(announce * 3 <= peer_silence, "two lost announcements are no death");
}

/// Lets a replica and an outsider know each other; returns who the replica is.
async fn introduced(replica: &Replica, outsider: &Outsider) -> Origin {
    replica.until_on().await;
    let mut listener = outsider.another().await;
    let domain = domain();
    let offer = Offer { domain: DomainRef::of(&domain), resident: Blocks::ZERO };
    outsider.tell_all(message::announcement(outsider.origin, true, &[offer])).await;
    until("it knows the outsider", || replica.watch.peers() > 0).await;
    let foreign = |bytes: &bytes::Bytes| {
        Some(decode(bytes).unwrap().origin).filter(|origin| *origin != outsider.origin)
    };
    listener.next_broadcast(foreign).await
}

fn request_of(bytes: &bytes::Bytes) -> Option<(Origin, u64)> {
    let message = decode(bytes).unwrap();
    match message.body {
        Body::Request { transfer, .. } => Some((message.origin, transfer)),
        _ => None,
    }
}

fn part_of(bytes: &bytes::Bytes) -> Option<(u64, u32, PartEnd, usize)> {
    match decode(bytes).unwrap().body {
        Body::Part { transfer, index, end, hashes, .. } => Some((transfer, index, end, hashes.count())),
        _ => None,
    }
}
