//! Peers that lie, hang or never read: each costs its own connection and nothing else.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use kvroute_zmtp::{Endpoint, Listener, Message, Publisher, Subscriber, ZmtpError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server that answers the first connection with these bytes and keeps it open.
async fn serve(bytes: Vec<u8>) -> (Endpoint, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::from(listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        while stream.read_u8().await.is_ok() {}
    });
    (endpoint, tasks)
}

fn handshake_of(socket_type: &str) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    bytes.extend(b"NULL");
    bytes.resize(64, 0);
    let mut ready = b"\x05READY\x0bSocket-Type\0\0\0".to_vec();
    ready.push(socket_type.len() as u8);
    ready.extend(socket_type.as_bytes());
    bytes.extend([4, ready.len() as u8]);
    bytes.extend(ready);
    bytes
}

async fn error_after_handshake(rest: &[u8]) -> ZmtpError {
    let (endpoint, _server) = serve([&handshake_of("PUB")[..], rest].concat()).await;
    let mut subscriber = Subscriber::connect(&endpoint, b"").await.unwrap();
    subscriber.receive().await.unwrap_err()
}

#[tokio::test]
async fn an_http_server_is_no_publisher() {
    let (endpoint, _server) = serve(b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(4)).await;
    let error = Subscriber::connect(&endpoint, b"").await.unwrap_err();
    assert!(error.to_string().contains("is this the event port?"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_peer_times_out() {
    let (endpoint, _server) = serve(Vec::new()).await;
    let error = Subscriber::connect(&endpoint, b"").await.unwrap_err();
    assert!(matches!(error, ZmtpError::HandshakeTimeout), "{error}");
}

#[tokio::test]
async fn a_frame_of_32_tebibytes_is_refused() {
    let error = error_after_handshake(&[2, 0, 0, 32, 0, 0, 0, 0, 0, 1, 2, 3]).await;
    assert!(matches!(error, ZmtpError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn a_message_of_endless_frames_is_refused() {
    let error = error_after_handshake(&[1, 1, b'x'].repeat(1000)).await;
    assert!(matches!(error, ZmtpError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn an_error_command_gives_its_reason() {
    let error = error_after_handshake(b"\x04\x0d\x05ERROR\x06no way").await;
    assert_eq!(error.to_string(), "peer refused: no way");
}

#[tokio::test]
async fn a_wildcard_cannot_be_connected_to_and_a_taken_port_is_named() {
    let wildcard = "tcp://*:5557".parse().unwrap();
    let error = Subscriber::connect(&wildcard, b"").await.unwrap_err();
    assert!(error.to_string().contains("tcp://*:5557"), "{error}");

    let holder = Listener::bind(&"tcp://127.0.0.1:0".parse().unwrap()).await.unwrap();
    let taken = Endpoint::from(holder.local_addr());
    let error = Listener::bind(&taken).await.unwrap_err();
    assert!(error.to_string().contains(&taken.to_string()), "{error}");
}

#[tokio::test]
async fn a_subscriber_that_never_reads_loses_messages_and_holds_up_nobody() {
    let publisher = Publisher::bind(&"tcp://127.0.0.1:0".parse().unwrap(), 4).await.unwrap();
    let endpoint = Endpoint::from(publisher.local_addr());
    let mut slow = Subscriber::connect(&endpoint, b"").await.unwrap();
    let _hung = TcpStream::connect((endpoint.host(), endpoint.port())).await.unwrap();
    while publisher.subscribers() < 1 {
        tokio::task::yield_now().await;
    }

    let payload = Bytes::from(vec![0; 1 << 20]);
    let sent = 200;
    for number in 0..sent {
        publisher.send(&numbered(number, &payload));
        tokio::task::yield_now().await;
    }
    // Whatever fitted arrives in order; publishing goes on meanwhile and its messages arrive after the gap.
    let mut received = Vec::new();
    for number in sent.. {
        publisher.send(&numbered(number, &Bytes::new()));
        let message = slow.receive().await.unwrap();
        received.push(u64::from_be_bytes(message[0][..].try_into().unwrap()));
        if received.last().is_some_and(|last| *last >= sent) {
            break;
        }
    }
    assert!(received.is_sorted(), "{received:?}");
    assert!((received.len() as u64) < sent, "nothing was dropped: {}", received.len());
}

fn numbered(number: u64, payload: &Bytes) -> Message {
    vec![Bytes::copy_from_slice(&number.to_be_bytes()), payload.clone()]
}

#[tokio::test]
async fn a_dropped_publisher_closes_its_connections() {
    let publisher = Publisher::bind(&"tcp://127.0.0.1:0".parse().unwrap(), 4).await.unwrap();
    let endpoint = Endpoint::from(publisher.local_addr());
    let mut subscriber = Subscriber::connect(&endpoint, b"").await.unwrap();
    drop(publisher);
    let error = subscriber.receive().await.unwrap_err();
    assert!(matches!(error, ZmtpError::Closed | ZmtpError::Io(_)), "{error}");
}
