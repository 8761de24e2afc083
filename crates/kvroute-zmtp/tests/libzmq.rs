//! Against libzmq, the implementation that engines publish with.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/peer.rs"]
mod peer;

use bytes::Bytes;
use kvroute_zmtp::{Dealer, Endpoint, Listener, Message, Publisher, Router, Subscriber, ZmtpError};
use peer::{Peer, python};

const ANY: &str = "tcp://127.0.0.1:*";

fn endpoint(text: &str) -> Endpoint {
    text.parse().unwrap()
}

fn sequence(message: &Message) -> u64 {
    u64::from_be_bytes(message[1][..].try_into().unwrap())
}

fn event(number: u64, payload: &'static [u8]) -> Message {
    let number = Bytes::copy_from_slice(&number.to_be_bytes());
    vec![Bytes::from_static(b"kv-events"), number, Bytes::from_static(payload)]
}

/// Publishes until the subscriber got the first message: a subscription takes effect when it arrives.
async fn first_message(engine: &mut Peer, subscriber: &mut Subscriber) -> Message {
    loop {
        engine.command("publish 0 aabb").await;
        let patience = std::time::Duration::from_millis(100);
        if let Ok(message) = tokio::time::timeout(patience, subscriber.receive()).await {
            return message.unwrap();
        }
    }
}

#[tokio::test]
async fn a_subscription_gets_whole_messages_and_sees_a_crash() {
    let Some(python) = python() else { return };
    let (mut engine, events, _) = Peer::engine(&python, &[ANY, "-"]).await;
    let mut subscriber = Subscriber::connect(&endpoint(&events), b"kv").await.unwrap();

    let message = first_message(&mut engine, &mut subscriber).await;
    assert_eq!(message, event(0, &[0xaa, 0xbb]));

    engine.command("flood 3 5000000").await;
    let mut received = Vec::new();
    while received.len() < 3 {
        let message = subscriber.receive().await.unwrap();
        if message[2].len() == 5_000_000 {
            received.push(sequence(&message));
        }
    }
    assert_eq!(received, [0, 1, 2]);

    engine.kill().await;
    let error = loop {
        if let Err(error) = subscriber.receive().await {
            break error;
        }
    };
    assert!(matches!(error, ZmtpError::Closed | ZmtpError::Io(_)), "{error}");
    let refused = Subscriber::connect(&endpoint(&events), b"kv").await.unwrap_err();
    assert!(matches!(refused, ZmtpError::Connect { .. }), "{refused}");

    let (mut engine, ..) = Peer::engine(&python, &[&events, "-"]).await;
    let mut subscriber = Subscriber::connect(&endpoint(&events), b"kv").await.unwrap();
    assert_eq!(sequence(&first_message(&mut engine, &mut subscriber).await), 0);
}

#[tokio::test]
async fn heartbeats_are_answered() {
    let Some(python) = python() else { return };
    let (mut engine, events, _) = Peer::engine(&python, &[ANY, "-", "heartbeat"]).await;
    let mut subscriber = Subscriber::connect(&endpoint(&events), b"kv").await.unwrap();
    first_message(&mut engine, &mut subscriber).await;
    // libzmq closes a connection that leaves a PING unanswered for one interval (50 ms here).
    let silence = tokio::time::timeout(std::time::Duration::from_millis(500), subscriber.receive()).await;
    assert!(silence.is_err(), "{silence:?}");
    engine.command("publish 1 cc").await;
    while sequence(&subscriber.receive().await.unwrap()) != 1 {}
}

#[tokio::test]
async fn two_publishers_that_connect_are_told_apart() {
    let Some(python) = python() else { return };
    let listener = Listener::bind(&endpoint("tcp://127.0.0.1:0")).await.unwrap();
    let ours = format!("connect:{}", Endpoint::from(listener.local_addr()));
    for payload in ["aaaa", "bbbb"] {
        let (mut engine, ..) = Peer::engine(&python, &[&ours, "-"]).await;
        let mut subscriber = listener.accept().await.subscribe(b"kv").await.unwrap();
        loop {
            engine.command(&format!("publish 7 {payload}")).await;
            let patience = std::time::Duration::from_millis(100);
            let Ok(message) = tokio::time::timeout(patience, subscriber.receive()).await else { continue };
            let message = message.unwrap();
            assert_eq!(sequence(&message), 7);
            assert_eq!(message[2][..], if payload == "aaaa" { [0xaa; 2] } else { [0xbb; 2] });
            break;
        }
    }
}

#[tokio::test]
async fn a_dealer_gets_every_answer_of_a_replay() {
    let Some(python) = python() else { return };
    let (mut engine, _, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    for number in 3..7 {
        engine.command(&format!("lose {number} 0{number}")).await;
    }
    let mut dealer = Dealer::connect(&endpoint(&replay)).await.unwrap();
    dealer.send(&vec![Bytes::new(), Bytes::copy_from_slice(&4_u64.to_be_bytes())]).await.unwrap();
    for number in 4..7 {
        let answer = dealer.receive().await.unwrap();
        assert_eq!(answer[0].len(), 0);
        assert_eq!(u64::from_be_bytes(answer[2][..].try_into().unwrap()), number);
        assert_eq!(answer[3][..], [number as u8]);
    }
    assert_eq!(dealer.receive().await.unwrap(), ["", "", "\u{0}", ""].map(end_frame).to_vec());
}

fn end_frame(text: &'static str) -> Bytes {
    if text.is_empty() { Bytes::new() } else { Bytes::from_static(&[0xff; 8]) }
}

#[tokio::test]
async fn libzmq_wants_encryption_and_is_refused_by_name() {
    let Some(python) = python() else { return };
    let (_engine, events, _) = Peer::engine(&python, &[ANY, "-", "curve"]).await;
    let error = Subscriber::connect(&endpoint(&events), b"kv").await.unwrap_err();
    assert!(error.to_string().contains("does it ask for encryption?"), "{error}");
}

#[tokio::test]
async fn swapped_ports_are_named() {
    let Some(python) = python() else { return };
    let (_engine, events, replay) = Peer::engine(&python, &[ANY, ANY]).await;
    let error = Subscriber::connect(&endpoint(&replay), b"").await.unwrap_err();
    assert!(error.to_string().contains("swapped"), "{error}");
    assert!(Dealer::connect(&endpoint(&events)).await.is_err());
}

#[tokio::test]
async fn our_publisher_serves_the_topics_that_libzmq_asks_for() {
    let Some(python) = python() else { return };
    let publisher = Publisher::bind(&endpoint("tcp://127.0.0.1:0"), 1000).await.unwrap();
    let address = Endpoint::from(publisher.local_addr()).to_string();
    let mut subscriber = Peer::start(&python, &["sub", &address, "kv"]);
    while publisher.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    publisher.send(&vec![Bytes::from_static(b"load"), Bytes::from_static(b"1")]);
    publisher.send(&event(9, &[1; 300]));
    assert_eq!(subscriber.line().await, "6b762d6576656e7473 0000000000000009 #300");

    subscriber.kill().await;
    while publisher.subscribers() != 0 {
        tokio::task::yield_now().await;
    }
    publisher.close().await;
}

#[tokio::test]
async fn our_router_answers_dealer_and_req() {
    let Some(python) = python() else { return };
    let mut router = Router::bind(&endpoint("tcp://127.0.0.1:0")).await.unwrap();
    let address = Endpoint::from(router.local_addr()).to_string();
    let cases: [(&[&str], &str); 2] = [
        (&["ask", "dealer", &address, "-", "0000000000000005"], "- 6b 0000000000000005"),
        (&["ask", "req", &address, "0000000000000005"], "6b 0000000000000005"),
    ];
    for (arguments, answer) in cases {
        let mut peer = Peer::start(&python, arguments);
        let (id, request) = router.receive().await;
        assert_eq!(request.len(), 2);
        assert!(router.send(id, vec![Bytes::new(), Bytes::from_static(b"k"), request[1].clone()]).await);
        assert_eq!(peer.line().await, answer);
        peer.kill().await;
        while router.send(id, request.clone()).await {
            tokio::task::yield_now().await;
        }
    }
    router.close().await;
}
