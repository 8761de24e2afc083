//! The event sockets against libzmq, as a router written in Python would use them.
//!
//! `KVROUTE_PYTHON` names a Python that has `pyzmq`. Without it the test is skipped with a line that says so, unless
//! `KVROUTE_REQUIRE_PEERS=1`.

use std::process::Stdio;

use kvroute_sim::SimConfig;
use kvroute_zmtp::Dealer;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::events::{replay, sources};
use crate::http::{complete, start};

/// Subscribes; says `ready`; after a line on stdin prints the live messages up to the number read there, then what
/// a DEALER gets for a replay from 0.
const PEER: &str = r#"
import struct, sys, zmq
events, replay = sys.argv[1:]
context = zmq.Context()
sub = context.socket(zmq.SUB)
sub.setsockopt(zmq.SUBSCRIBE, b"kv-events")
sub.connect(events)
print("live", *[frame.hex() for frame in sub.recv_multipart()], flush=True)
last = int(sys.stdin.readline())
while True:
    frames = sub.recv_multipart()
    print("live", *[frame.hex() for frame in frames], flush=True)
    if struct.unpack(">Q", frames[1])[0] >= last:
        break
dealer = context.socket(zmq.DEALER)
dealer.connect(replay)
dealer.send_multipart([b"", struct.pack(">Q", 0)])
while True:
    delimiter, topic, sequence, payload = dealer.recv_multipart()
    assert delimiter == b""
    print("replayed", topic.hex() or "-", sequence.hex(), payload.hex() or "-", flush=True)
    if sequence == b"\xff" * 8:
        break
context.destroy(linger=0)
"#;

fn python() -> Option<String> {
    let python = std::env::var("KVROUTE_PYTHON").ok();
    if python.is_none() {
        let required = std::env::var("KVROUTE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "KVROUTE_REQUIRE_PEERS=1, but KVROUTE_PYTHON names no Python with pyzmq");
        println!("skipped: set KVROUTE_PYTHON to a Python that has pyzmq");
    }
    python
}

#[tokio::test]
async fn libzmq_subscribes_and_replays() {
    let Some(python) = python() else { return };
    let engine = start(SimConfig { kv_blocks: 16, ..SimConfig::default() }).await;
    let sources = sources(&engine).await;
    let mut peer = Command::new(python)
        .args(["-c", PEER, &sources.events.to_string(), &sources.replay.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
    let mut number = 0;
    let mut request = async || {
        number += 1;
        complete(&engine, &(number * 100..number * 100 + 50).collect::<Vec<_>>(), 2).await;
    };
    // Requests go on until the subscription has taken effect.
    let first = loop {
        request().await;
        let patience = std::time::Duration::from_millis(20);
        if let Ok(line) = tokio::time::timeout(patience, lines.next_line()).await {
            break line.unwrap().expect("the peer ended");
        }
    };
    for _ in 0..10 {
        request().await;
    }
    let mut dealer = Dealer::connect(&sources.replay).await.unwrap();
    let all = replay(&mut dealer, 0).await;
    let last = all.last().unwrap().0;
    peer.stdin.take().unwrap().write_all(format!("{last}\n").as_bytes()).await.unwrap();

    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected = |word: &str, (sequence, payload): &(u64, bytes::Bytes)| {
        format!("{word} {} {sequence:016x} {}", hex(b"kv-events"), hex(payload))
    };
    let start =
        all.iter().position(|batch| expected("live", batch) == first).expect("the first live message");
    let live = all[start + 1..].iter().map(|batch| expected("live", batch));
    let replayed = all.iter().map(|batch| expected("replayed", batch));
    for line in live.chain(replayed).chain([format!("replayed - {} -", "ff".repeat(8))]) {
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(&line[..]));
    }
    assert!(peer.wait().await.unwrap().success());
    engine.stop().await;
}
