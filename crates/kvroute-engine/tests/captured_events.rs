//! Every event frame that was captured from real engines, against what another MessagePack implementation read.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Read;

use base64::Engine;
use kvroute_core::{DpRank, EngineHash, EventBatch, KvEvent, Tier};
use kvroute_engine::events::EventDecoder;
use serde_json::Value;

fn captured(name: &str) -> Vec<Value> {
    let path = format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line.get("frames_b64").is_some())
        .collect()
}

fn payload(line: &Value) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(line["frames_b64"][2].as_str().unwrap()).unwrap()
}

fn hash(value: &Value) -> EngineHash {
    EngineHash::Int(value.as_u64().unwrap_or_else(|| value.as_i64().unwrap() as u64))
}

fn hashes(event: &Value) -> Vec<EngineHash> {
    event["block_hashes"].as_array().unwrap().iter().map(hash).collect()
}

fn assert_same(event: &KvEvent, expected: &Value) {
    match event {
        KvEvent::Moved { .. } => panic!("neither engine names a move: {event:?}"),
        KvEvent::Cleared => assert_eq!(expected["type"], "AllBlocksCleared"),
        KvEvent::Removed { hashes: removed, tier } => {
            assert_eq!(expected["type"], "BlockRemoved");
            assert_eq!((removed, *tier), (&hashes(expected), Tier::Device));
        }
        KvEvent::Stored(stored) => {
            assert_eq!(expected["type"], "BlockStored");
            assert_eq!(stored.hashes, hashes(expected));
            let parent = &expected["parent_block_hash"];
            assert_eq!(stored.parent, (!parent.is_null()).then(|| hash(parent)));
            let tokens: Vec<_> =
                expected["token_ids"].as_array().unwrap().iter().map(Value::as_u64).collect();
            assert_eq!(stored.tokens.iter().map(|id| Some(u64::from(*id))).collect::<Vec<_>>(), tokens);
            assert_eq!(Some(u64::from(stored.block_size.get())), expected["block_size"].as_u64());
            assert_eq!((stored.tier, &stored.adapter), (Tier::Device, &None));
            let salt = expected["cache_salt"].as_str().or_else(|| expected["extra_keys"][0][0].as_str());
            assert_eq!(stored.salt.as_deref(), salt);
        }
    }
}

/// Counts of stored, removed and cleared events, and of salted stores.
fn check(file: &str) -> [usize; 4] {
    let mut decoder = EventDecoder::default();
    let mut counts = [0; 4];
    for line in captured(file) {
        let EventBatch { published, dp_rank, events, undecodable, ignored, rejected } =
            decoder.decode(&payload(&line));
        let seconds = published.unwrap().as_secs_f64() - line["decoded"][0].as_f64().unwrap();
        assert!(seconds.abs() < 1e-6, "{seconds}");
        assert_eq!((dp_rank, undecodable, ignored, rejected), (Some(DpRank::new(0)), 0, 0, 0));
        let expected = line["decoded"][1].as_array().unwrap();
        assert_eq!(events.len(), expected.len());
        for (event, expected) in events.iter().zip(expected) {
            assert_same(event, expected);
            match event {
                KvEvent::Stored(stored) => {
                    counts[0] += 1;
                    counts[3] += usize::from(stored.salt.is_some());
                }
                KvEvent::Removed { .. } => counts[1] += 1,
                KvEvent::Cleared => counts[2] += 1,
                KvEvent::Moved { .. } => {}
            }
        }
    }
    counts
}

#[test]
fn vllm_session() {
    assert_eq!(check("vllm/session.jsonl.gz"), [90, 76, 2, 2]);
}

#[test]
fn vllm_resets_evictions_and_salts() {
    assert_eq!(check("vllm/kv_events.jsonl.gz"), [44, 40, 3, 1]);
}

#[test]
fn sglang_session() {
    assert_eq!(check("sglang/session.jsonl.gz"), [104, 26, 3, 0]);
}

#[test]
fn sglang_salts_and_aborts() {
    assert_eq!(check("sglang/kv_events.jsonl.gz"), [16, 7, 1, 1]);
}
