//! Against this workspace's own sockets.

use std::cell::Cell;

use bytes::Bytes;
use kvroute_core::{BlockSize, ReplayOutcome, SourceState};
use kvroute_engine::events::{BlockSizeClaim, EventAddress, EventFollower, SourceIncident, SourceReason};
use kvroute_zmtp::{Endpoint, Message, Publisher, Router};

use crate::followed::{Followed, payload, stream};
use crate::http_server::HttpServer;

const ANY: &str = "tcp://127.0.0.1:0";
const FAILED: SourceIncident = SourceIncident::ReplayEnded(ReplayOutcome::Failed);

/// A batch that stores one block of this many tokens.
fn store(tokens: u32) -> Vec<u8> {
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 2).unwrap();
    rmp::encode::write_f64(&mut out, 0.5).unwrap();
    rmp::encode::write_array_len(&mut out, 1).unwrap();
    rmp::encode::write_array_len(&mut out, 5).unwrap();
    rmp::encode::write_str(&mut out, "BlockStored").unwrap();
    rmp::encode::write_array_len(&mut out, 1).unwrap();
    rmp::encode::write_uint(&mut out, 7).unwrap();
    rmp::encode::write_nil(&mut out).unwrap();
    rmp::encode::write_array_len(&mut out, tokens).unwrap();
    for id in 0..tokens {
        rmp::encode::write_uint(&mut out, u64::from(id)).unwrap();
    }
    rmp::encode::write_uint(&mut out, u64::from(tokens)).unwrap();
    out
}

fn message(sequence: u64, mark: u64) -> Message {
    let number = Bytes::copy_from_slice(&sequence.to_be_bytes());
    vec![Bytes::from_static(b"kv-events"), number, Bytes::from(payload(mark))]
}

/// A publisher that the follower has subscribed to.
async fn subscribed(endpoint: &str) -> Publisher {
    let publisher = Publisher::bind(&endpoint.parse().unwrap(), 100).await.unwrap();
    while publisher.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    publisher
}

/// Answers one replay request, which must start at a number, with messages of which the mark is the number.
async fn answer(router: &mut Router, from: u64, until: u64) {
    let (peer, request) = router.receive().await;
    assert_eq!(request, [Bytes::new(), Bytes::copy_from_slice(&from.to_be_bytes())]);
    for sequence in from..until {
        assert!(router.send(peer, [vec![Bytes::new()], message(sequence, sequence)].concat()).await);
    }
    let end = vec![Bytes::new(), Bytes::new(), Bytes::copy_from_slice(&[0xff; 8]), Bytes::new()];
    assert!(router.send(peer, end).await);
}

#[tokio::test]
async fn a_restart_that_the_next_number_in_line_hides_is_shown_by_the_engines_start() {
    let server = HttpServer::start().await;
    server.set_start(Some(1_000));
    let free = Publisher::bind(&ANY.parse().unwrap(), 1).await.unwrap();
    let endpoint = Endpoint::from(free.local_addr());
    free.close().await;
    let address = EventAddress::Connect(endpoint.clone());
    let mut stream = stream(address, None);
    stream.start_time_url = Some(server.url.clone());
    let mut followed = Followed::follow(stream).await;

    let old = subscribed(&endpoint.to_string()).await;
    for sequence in 0..3 {
        old.send(&message(sequence, sequence));
    }
    followed.until_applied(&[0, 1, 2]).await;
    followed.until_exact().await;
    server.until_asked(1).await;
    // The answer was read; what is told and applied behind it shows that it was heeded.
    for sequence in 3..8 {
        old.send(&message(sequence, sequence));
        followed.until(|followed| followed.applied.last() == Some(&sequence)).await;
    }

    old.close().await;
    server.set_start(Some(2_000));
    let new = subscribed(&endpoint.to_string()).await;
    new.send(&message(8, 103));
    followed.until_applied(&[103]).await;
    followed.until_reason(SourceReason::JoinedLate).await;
    assert_eq!(followed.clears, 1);
    let restarts = followed.incidents.iter().filter(|incident| **incident == SourceIncident::Restart);
    assert_eq!(restarts.count(), 1);

    new.close().await;
    let same = subscribed(&endpoint.to_string()).await;
    same.send(&message(9, 104));
    followed.until_applied(&[103, 104]).await;
    assert_eq!(followed.clears, 1);
    followed.stop().await;
}

#[tokio::test]
async fn an_engine_without_a_start_in_its_metrics_is_followed_by_its_numbers() {
    let server = HttpServer::start().await;
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let mut stream = stream(EventAddress::Connect(publisher.local_addr().into()), None);
    stream.start_time_url = Some(server.url.clone());
    let mut followed = Followed::follow(stream).await;
    while publisher.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    publisher.send(&message(0, 0));
    followed.until_applied(&[0]).await;
    followed.until_exact().await;
    followed.stop().await;
}

#[tokio::test]
async fn a_snapshot_is_resumed_behind_its_last_message() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let mut router = Router::bind(&ANY.parse().unwrap()).await.unwrap();
    let replay = Endpoint::from(router.local_addr()).to_string();
    let stream = stream(EventAddress::Connect(publisher.local_addr().into()), Some(&replay));

    let mut before = Followed::follow(stream.clone()).await;
    answer(&mut router, 0, 3).await;
    before.until_applied(&[0, 1, 2]).await;
    before.until_exact().await;
    let position = before.position;
    before.stop().await;

    let mut after =
        Followed::follow(kvroute_engine::events::EventStream { resume: position, ..stream }).await;
    answer(&mut router, 2, 5).await;
    after.until_applied(&[3, 4]).await;
    after.until_exact().await;
    assert_eq!(after.clears, 0);
    after.stop().await;
}

#[tokio::test]
async fn a_storm_of_restarts_is_no_storm_of_replays() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 10_000).await.unwrap();
    let mut router = Router::bind(&ANY.parse().unwrap()).await.unwrap();
    let replay = Endpoint::from(router.local_addr()).to_string();
    let address = EventAddress::Connect(publisher.local_addr().into());
    let mut followed = Followed::start(address, Some(&replay)).await;
    while publisher.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    // Each number is below the one before: as many restarts, none of which is heard from its start, and each with time
    // enough to ask for what came before it. It goes on until some have asked: the next restart calls such a question off.
    let (began, requests) = (tokio::time::Instant::now(), Cell::new(0));
    let count = async {
        loop {
            let _request = router.receive().await;
            requests.set(requests.get() + 1);
        }
    };
    let storm = async {
        for (sent, sequence) in (1..=100_000).rev().enumerate() {
            if sent >= 200 && requests.get() >= 3 {
                return;
            }
            publisher.send(&message(sequence, sequence));
            let soon = std::time::Duration::from_millis(5);
            let _ = tokio::time::timeout(soon, followed.until(|_| false)).await;
        }
    };
    tokio::select! { () = count => {}, () = storm => {} }
    let restarts = followed.incidents.iter().filter(|incident| **incident == SourceIncident::Restart);
    assert!(restarts.count() > 100);
    let allowed = began.elapsed().as_millis() / 100 + 2;
    let requests = requests.get();
    assert!((3..=allowed).contains(&requests), "{requests} replays were asked for, {allowed} at most");
    followed.stop().await;
}

#[tokio::test]
async fn a_missing_replay_socket_is_named() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let events = Endpoint::from(publisher.local_addr()).to_string();
    let nobody = Router::bind(&ANY.parse().unwrap()).await.unwrap();
    let replay = Endpoint::from(nobody.local_addr()).to_string();
    nobody.close().await;

    let mut followed = Followed::connect(&events, Some(&replay)).await;
    followed.until_reason(SourceReason::ReplayFailed).await;
    followed.stop().await;
}

#[tokio::test]
async fn a_replay_that_does_not_move_on_is_given_up_though_it_never_falls_silent() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let mut router = Router::bind(&ANY.parse().unwrap()).await.unwrap();
    let replay = Endpoint::from(router.local_addr()).to_string();
    let address = EventAddress::Connect(publisher.local_addr().into());
    let mut followed = Followed::start(address, Some(&replay)).await;
    let (peer, _request) = router.receive().await;
    let repeat = async {
        while router.send(peer, [vec![Bytes::new()], message(0, 0)].concat()).await {
            tokio::task::yield_now().await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = repeat => {}
        () = followed.until(|followed| followed.incidents.contains(&FAILED)) => {}
    }
    followed.stop().await;
}

/// Answers one replay request with these numbers, and no end.
async fn answer_in_part(router: &mut Router, numbers: impl IntoIterator<Item = u64>) {
    let (peer, _request) = router.receive().await;
    for sequence in numbers {
        assert!(router.send(peer, [vec![Bytes::new()], message(sequence, sequence)].concat()).await);
    }
}

#[tokio::test]
async fn what_is_lost_within_answers_and_at_their_ends_is_asked_for_until_all_is_there() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let mut router = Router::bind(&ANY.parse().unwrap()).await.unwrap();
    let replay = Endpoint::from(router.local_addr()).to_string();
    let address = EventAddress::Connect(publisher.local_addr().into());
    let mut followed = Followed::start(address, Some(&replay)).await;
    let answers = async {
        answer_in_part(&mut router, (0..100).chain(150..200)).await;
        answer_in_part(&mut router, 99..170).await;
        answer_in_part(&mut router, (169..300).chain(301..302)).await;
        answer(&mut router, 299, 400).await;
    };
    tokio::join!(answers, followed.until_exact());
    assert_eq!(followed.applied, (0..400).collect::<Vec<_>>());
    assert_eq!(followed.clears, 0);
    assert_eq!(followed.incidents.iter().filter(|incident| **incident == FAILED).count(), 3);
    followed.stop().await;
}

#[tokio::test]
async fn a_replay_socket_of_another_engine_is_given_up() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let mut router = Router::bind(&ANY.parse().unwrap()).await.unwrap();
    let replay = Endpoint::from(router.local_addr()).to_string();
    let address = EventAddress::Connect(publisher.local_addr().into());
    let mut followed = Followed::start(address, Some(&replay)).await;
    answer(&mut router, 0, 50).await;
    followed.until_exact().await;
    for sequence in 0..3 {
        publisher.send(&message(sequence, 1000 + sequence));
    }
    followed.until_applied(&[1000, 1001, 1002]).await;
    publisher.send(&message(9, 1009));
    followed.until_reason(SourceReason::ReplayOfAnother).await;
    assert_eq!(followed.applied, [1009]);
    followed.stop().await;
}

#[tokio::test]
async fn a_required_block_size_that_the_events_contradict_is_named_with_both() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let (expected, seen) = (BlockSize::new(16).unwrap(), BlockSize::new(32).unwrap());
    let mut stream = stream(EventAddress::Connect(publisher.local_addr().into()), None);
    stream.topic = String::new();
    stream.block_size = BlockSizeClaim::Required(expected);
    let mut followed = Followed::follow(stream).await;
    while publisher.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    publisher.send(&vec![Bytes::new(), Bytes::copy_from_slice(&[0; 8]), Bytes::from(store(32))]);
    followed.until_reason(SourceReason::BlockSize { expected, seen }).await;
    assert_eq!((followed.applied.len(), followed.status.unwrap().state), (0, SourceState::Blind));
    followed.stop().await;
}

#[tokio::test]
async fn joins_late_by_replay_while_live_messages_wait() {
    let publisher = Publisher::bind(&ANY.parse().unwrap(), 100).await.unwrap();
    let mut router = Router::bind(&ANY.parse().unwrap()).await.unwrap();
    let events = Endpoint::from(publisher.local_addr()).to_string();
    let replay = Endpoint::from(router.local_addr()).to_string();
    let mut followed = Followed::connect(&events, Some(&replay)).await;

    let (peer, request) = router.receive().await;
    assert_eq!(request, [Bytes::new(), Bytes::copy_from_slice(&0_u64.to_be_bytes())]);
    while publisher.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    publisher.send(&message(2, 2));
    for sequence in 0..2 {
        assert!(router.send(peer, [vec![Bytes::new()], message(sequence, sequence)].concat()).await);
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
    let nobody = Publisher::bind(&ANY.parse().unwrap(), 1).await.unwrap();
    let events = Endpoint::from(nobody.local_addr()).to_string();
    nobody.close().await;
    let mut followed = Followed::connect(&events, None).await;
    followed.until(|followed| followed.status.is_some_and(|status| status.state == SourceState::Blind)).await;
    assert_eq!(followed.status.unwrap().reason, Some(SourceReason::NotConnected));
    followed.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_an_error_before_anything_runs() {
    let taken = Publisher::bind(&ANY.parse().unwrap(), 1).await.unwrap();
    let endpoint = Endpoint::from(taken.local_addr());
    let stream = stream(EventAddress::Bind(endpoint.clone()), None);
    let error = EventFollower::open(stream).await.unwrap_err();
    assert!(error.to_string().contains(&endpoint.to_string()), "{error}");
}
