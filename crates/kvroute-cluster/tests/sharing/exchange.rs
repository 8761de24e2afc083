//! What is told, by whom it is learned, and what is ignored.

use kvroute_cluster::message::{self, Body, DomainRef, HASHES_PER_MESSAGE, decode};
use kvroute_core::{MessageResult, SharingState};
use kvroute_history::Domain;

use super::outsider::Outsider;
use super::replica::{Replica, acquainted, domain, hashes, timing, until};
use super::server::{self, Server};

#[tokio::test]
async fn what_one_replica_learns_the_others_know() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let (a, b, c) = (Replica::at(&server), Replica::at(&server), Replica::at(&server));
    acquainted(&[&a, &b, &c]).await;
    let (first, second) = (hashes(1, 40), hashes(2, 7));
    a.learn(&first);
    b.learn(&second);
    for replica in [&a, &b, &c] {
        replica.until_it_knows(&first).await;
        replica.until_it_knows(&second).await;
        assert_eq!((replica.watch.dropped(), replica.watch.received(MessageResult::Lost)), (0, 0));
        assert_eq!(replica.watch.states(), [SharingState::Degraded, SharingState::On]);
    }
    for replica in [a, b, c] {
        replica.cluster.stop().await;
        assert_eq!((replica.watch.state(), replica.watch.peers()), (SharingState::Off, 0));
    }
}

#[tokio::test]
async fn what_a_peer_told_is_not_told_again() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let (a, b) = (Replica::at(&server), Replica::at(&server));
    acquainted(&[&a, &b]).await;
    let mut outsider = Outsider::at(&server).await;
    a.learn(&hashes(1, 3));
    b.until_it_knows(&hashes(1, 3)).await;
    b.learn(&hashes(2, 3));
    let mut updates = Vec::new();
    while updates.len() < 2 {
        let update = |bytes: &bytes::Bytes| match decode(bytes).unwrap().body {
            Body::Update { hashes, .. } => Some(hashes.to_vec()),
            _ => None,
        };
        updates.push(outsider.next_broadcast(update).await);
    }
    assert_eq!(updates, [hashes(1, 3), hashes(2, 3)]);
}

#[tokio::test]
async fn a_long_prefix_goes_in_several_messages() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let (a, b) = (Replica::at(&server), Replica::at(&server));
    acquainted(&[&a, &b]).await;
    let mut outsider = Outsider::at(&server).await;
    let long = hashes(1, 2 * HASHES_PER_MESSAGE as u64 + 5);
    a.learn(&long);
    b.until_it_knows(&long).await;
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < long.len() {
        let size = |bytes: &bytes::Bytes| match decode(bytes).unwrap().body {
            Body::Update { hashes, .. } => Some(hashes.count()),
            _ => None,
        };
        sizes.push(outsider.next_broadcast(size).await);
    }
    assert_eq!(sizes, [HASHES_PER_MESSAGE, HASHES_PER_MESSAGE, 5]);
}

#[tokio::test]
async fn a_server_that_takes_only_small_messages_gets_small_ones() {
    if !server::is_there() {
        return;
    }
    let server = Server::with("max_payload: 8192").await;
    let known = hashes(2, 3000);
    let (a, b) = (Replica::knowing(&server, &known), Replica::at(&server));
    acquainted(&[&a, &b]).await;
    b.until_it_knows(&known).await;
    let long = hashes(1, 5000);
    a.learn(&long);
    b.until_it_knows(&long).await;
    assert_eq!(a.watch.dropped(), 0);
}

#[tokio::test]
async fn an_echo_of_its_own_message_is_ignored() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let a = Replica::at(&server);
    a.until_on().await;
    let mut outsider = Outsider::at(&server).await;
    a.learn(&hashes(1, 3));
    let update = outsider
        .next_broadcast(|bytes| {
            matches!(decode(bytes).unwrap().body, Body::Update { .. }).then(|| bytes.clone())
        })
        .await;
    a.history.clear();
    outsider.tell_all(update).await;
    a.until_received(MessageResult::Own).await;
    assert!(a.history.resident().is_zero());
    assert_eq!(a.watch.received(MessageResult::Own), 1, "the server itself echoes nothing");
}

#[tokio::test]
async fn another_domain_is_ignored_and_counted() {
    if !server::is_there() {
        return;
    }
    let others = [
        Domain { model: "another".to_owned(), ..domain() },
        Domain { block_size: 32, ..domain() },
        Domain { hash_scheme: "another".to_owned(), ..domain() },
        Domain { namespace_scheme: "another".to_owned(), ..domain() },
    ];
    let server = Server::start().await;
    let a = Replica::at(&server);
    a.until_on().await;
    for other in others {
        let b = Replica::with(&server.url(), timing(), other, &hashes(9, 5));
        b.until_on().await;
        let before = a.watch.received(MessageResult::OtherDomain);
        b.learn(&hashes(1, 3));
        until("it is counted", || a.watch.received(MessageResult::OtherDomain) > before).await;
        assert_eq!((a.watch.peers(), b.watch.peers()), (0, 0), "they share nothing");
        b.cluster.stop().await;
    }
    assert!(a.history.resident().is_zero());
    assert_eq!(a.watch.received(MessageResult::OtherDomain), 4);
    assert_eq!(a.watch.state(), SharingState::On);
}

#[tokio::test]
async fn a_replica_shares_several_domains_and_leaves_each_on_its_own() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let (a, b) = (Replica::at(&server), Replica::at(&server));
    let other = Domain { model: "another".to_owned(), ..domain() };
    let (more_of_a, more_of_b) = (Replica::at(&server), Replica::at(&server));
    let of_a = a.cluster.share(other.clone(), more_of_a.history.clone());
    let of_b = b.cluster.share(other, more_of_b.history.clone());
    acquainted(&[&a, &b, &more_of_a, &more_of_b]).await;
    of_a.taught(&hashes(1, 3));
    until("the other history knows", || more_of_b.knows(&hashes(1, 3))).await;
    assert!(b.history.resident().is_zero());
    drop(of_b);
    of_a.taught(&hashes(2, 3));
    until("it is counted", || b.watch.received(MessageResult::OtherDomain) > 0).await;
    assert!(!more_of_b.knows(&hashes(2, 3)));
    a.learn(&hashes(4, 3));
    b.until_it_knows(&hashes(4, 3)).await;
}

#[tokio::test]
async fn two_histories_of_one_domain_both_learn() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let (a, b, spare) = (Replica::at(&server), Replica::at(&server), Replica::at(&server));
    let _second = b.cluster.share(domain(), spare.history.clone());
    acquainted(&[&a, &b, &spare]).await;
    spare.cluster.stop().await;
    a.learn(&hashes(1, 3));
    b.until_it_knows(&hashes(1, 3)).await;
    spare.until_it_knows(&hashes(1, 3)).await;
}

#[tokio::test]
async fn rubbish_is_counted_by_its_kind_and_does_no_harm() {
    if !server::is_there() {
        return;
    }
    let server = Server::start().await;
    let (a, outsider) = (Replica::at(&server), Outsider::at(&server).await);
    a.until_on().await;
    let domain = domain();
    let request = message::request(outsider.origin, 1, DomainRef::of(&domain));
    for rubbish in ["".into(), "KVRH".into(), vec![7; 400 << 10].into(), request] {
        outsider.tell_all(rubbish).await;
    }
    let mut newer = message::goodbye(outsider.origin).to_vec();
    newer[4] = 2;
    outsider.tell_all(newer).await;
    until("all is counted", || {
        a.watch.received(MessageResult::Malformed) == 4 && a.watch.received(MessageResult::OtherVersion) == 1
    })
    .await;
    let update = message::update(outsider.origin, 0, DomainRef::of(&domain), &hashes(1, 3));
    outsider.tell_all(update).await;
    a.until_it_knows(&hashes(1, 3)).await;
}
