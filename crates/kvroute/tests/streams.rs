//! A stream passes byte by byte: identical when the client asked for usage, and identical but for the usage chunk
//! that the router asked for when it did not.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, Fleet, Ledger};
use serde_json::{Value, json};

const TOKENS: usize = 10_000;

fn long_answer(include_usage: bool) -> Value {
    let mut body = json!({
        "model": "sim", "messages": [{"role": "user", "content": "count to ten thousand"}],
        "max_tokens": TOKENS, "stream": true, "seed": 5,
    });
    if include_usage {
        body["stream_options"] = json!({"include_usage": true});
    }
    body
}

async fn read(client: &Client, url: &str, body: &Value) -> Bytes {
    let mut answer = client.open(url, body).await.into_body();
    let mut bytes = BytesMut::new();
    while let Some(frame) = answer.frame().await {
        bytes.extend_from_slice(frame.unwrap().data_ref().unwrap());
    }
    bytes.freeze()
}

/// Fails with the first event that differs, not with two streams of a megabyte.
fn assert_same(expected: &str, found: &str, what: &str) {
    let differing =
        expected.split("\n\n").zip(found.split("\n\n")).find(|(expected, found)| expected != found);
    assert_eq!(differing, None, "{what}");
    assert_eq!(expected.len(), found.len(), "{what}");
}

/// The stream without what differs between two answers of one engine: id and creation time.
fn comparable(stream: &Bytes) -> String {
    let text = std::str::from_utf8(stream).unwrap();
    let first: Value =
        serde_json::from_str(text.split("\n\n").next().unwrap().strip_prefix("data: ").unwrap()).unwrap();
    text.replace(first["id"].as_str().unwrap(), "ID")
        .replace(&format!("\"created\":{}", first["created"]), "")
}

fn without_usage_chunk(stream: &str) -> String {
    let kept = stream.split_inclusive("\n\n").filter(|event| !event.contains("\"choices\":[]"));
    kept.collect()
}

#[tokio::test]
async fn ten_thousand_tokens_pass_byte_by_byte() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let (routed, direct) =
        (fleet.data("/v1/chat/completions"), fleet.engines[0].url() + "/v1/chat/completions");
    read(&fleet.client, &direct, &long_answer(true)).await;

    let asked_direct = comparable(&read(&fleet.client, &direct, &long_answer(true)).await);
    let asked_routed = comparable(&read(&fleet.client, &routed, &long_answer(true)).await);
    assert!(
        asked_routed.matches("\n\n").count() >= TOKENS,
        "{} events",
        asked_routed.matches("\n\n").count()
    );
    assert!(asked_routed.contains("\"choices\":[]"), "no usage chunk");
    assert_same(&asked_direct, &asked_routed, "a stream with usage changed on its way");

    // Not compared with the engine's own stream without usage: vLLM moves its fingerprint into the usage chunk.
    let unasked_routed = comparable(&read(&fleet.client, &routed, &long_answer(false)).await);
    assert_same(&without_usage_chunk(&asked_routed), &unasked_routed, "more than the usage chunk is missing");

    let scrape = fleet.at_rest().await;
    Ledger::of(&scrape).assert_closes();
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "reported")]), 2);
    fleet.stop().await;
}
