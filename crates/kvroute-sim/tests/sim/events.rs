//! Event frames, read back by a reader of their own, tell exactly what the engine will reuse.

use std::collections::HashMap;

use bytes::Bytes;
use kvroute_core::BlockSize;
use kvroute_sim::{SimConfig, SimEngine};
use kvroute_zmtp::{Dealer, Endpoint, Message, Subscriber};
use rmp::Marker;
use serde_json::{Value, json};

use crate::http::{COMPLETIONS, cached_tokens, complete, get, open, post, start, until_stats};

/// Reads MessagePack into JSON; the few forms that event payloads use.
fn unpack(bytes: &mut &[u8]) -> Value {
    let take = |bytes: &mut &[u8], count: usize| {
        let (head, tail) = bytes.split_at(count);
        *bytes = tail;
        head.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let marker = Marker::from_u8(take(bytes, 1) as u8);
    let text = |bytes: &mut &[u8], count: usize| {
        let (head, tail) = bytes.split_at(count);
        *bytes = tail;
        Value::from(std::str::from_utf8(head).unwrap())
    };
    let list = |bytes: &mut &[u8], count: u64| (0..count).map(|_| unpack(bytes)).collect::<Vec<_>>().into();
    match marker {
        Marker::Null => Value::Null,
        Marker::FixPos(value) => value.into(),
        Marker::U8 => take(bytes, 1).into(),
        Marker::U16 => take(bytes, 2).into(),
        Marker::U32 => take(bytes, 4).into(),
        Marker::U64 => take(bytes, 8).into(),
        Marker::I64 => take(bytes, 8).cast_signed().into(),
        Marker::F64 => f64::from_bits(take(bytes, 8)).into(),
        Marker::FixStr(count) => text(bytes, count.into()),
        Marker::Str8 => {
            let count = take(bytes, 1);
            text(bytes, count as usize)
        }
        Marker::FixArray(count) => list(bytes, count.into()),
        Marker::Array16 => {
            let count = take(bytes, 2);
            list(bytes, count)
        }
        Marker::FixMap(count) => {
            let fields = (0..count).map(|_| (unpack(bytes).as_str().unwrap().to_owned(), unpack(bytes)));
            Value::Object(fields.collect())
        }
        other => panic!("unexpected {other:?}"),
    }
}

/// What a reader that knows only the events believes to be cached: content by the engine's own names, counted,
/// because the engine announces a second copy of a block like the first one.
#[derive(Default)]
struct Mirror {
    contents: HashMap<u64, (Value, Vec<u64>)>,
    copies: HashMap<(String, Vec<u64>), i64>,
}

impl Mirror {
    fn apply(&mut self, event: &Value) {
        let hashes = || event["block_hashes"].as_array().unwrap().iter().map(|hash| hash.as_u64().unwrap());
        match event["type"].as_str().unwrap() {
            "AllBlocksCleared" => self.copies.clear(),
            "BlockRemoved" => hashes().for_each(|hash| self.add(hash, -1)),
            "BlockStored" => {
                let (mut salt, mut tokens) = (event["extra_keys"][0].clone(), Vec::new());
                if let Some(parent) = event["parent_block_hash"].as_u64() {
                    (salt, tokens) = self.contents[&parent].clone();
                }
                let size = event["block_size"].as_u64().unwrap() as usize;
                let ids: Vec<u64> = serde_json::from_value(event["token_ids"].clone()).unwrap();
                assert_eq!(ids.len(), size * hashes().count());
                for (hash, block) in hashes().zip(ids.chunks(size)) {
                    tokens.extend_from_slice(block);
                    self.contents.insert(hash, (salt.clone(), tokens.clone()));
                    self.add(hash, 1);
                }
            }
            other => panic!("unexpected {other}"),
        }
    }

    fn add(&mut self, hash: u64, copies: i64) {
        let (salt, tokens) = &self.contents[&hash];
        let count = self.copies.entry((salt.to_string(), tokens.clone())).or_default();
        *count += copies;
        assert!(*count >= 0, "removed more often than stored");
    }

    fn cached(&self, prompt: &[u32], salt: &Value, block_size: usize) -> u64 {
        let prompt: Vec<u64> = prompt.iter().map(|token| u64::from(*token)).collect();
        let holds = |blocks: &usize| {
            let key = (salt.to_string(), prompt[..blocks * block_size].to_vec());
            self.copies.get(&key).is_some_and(|copies| *copies > 0)
        };
        let most = (prompt.len() - 1) / block_size;
        ((1..=most).take_while(holds).count() * block_size) as u64
    }
}

pub(crate) struct Sources {
    pub(crate) events: Endpoint,
    pub(crate) replay: Endpoint,
}

pub(crate) async fn sources(engine: &SimEngine) -> Sources {
    let sources = get(engine, "/kv_event_sources").await.json();
    let address = |field: &str| sources["0"][field].as_str().unwrap().parse().unwrap();
    assert_eq!(sources["0"]["topic"], "kv-events");
    Sources { events: address("endpoint"), replay: address("replay_endpoint") }
}

/// Asks for every batch from a number on: sequence and payload.
pub(crate) async fn replay(dealer: &mut Dealer, first: u64) -> Vec<(u64, Bytes)> {
    let request: Message = vec![Bytes::new(), Bytes::copy_from_slice(&first.to_be_bytes())];
    dealer.send(&request).await.unwrap();
    let mut batches = Vec::new();
    loop {
        let frames = dealer.receive().await.unwrap();
        let [delimiter, topic, sequence, payload] = &frames[..] else { panic!("{frames:?}") };
        assert!(delimiter.is_empty());
        let sequence = u64::from_be_bytes(sequence[..].try_into().unwrap());
        if sequence == u64::MAX {
            assert!(topic.is_empty() && payload.is_empty());
            return batches;
        }
        assert_eq!(&topic[..], b"kv-events");
        batches.push((sequence, payload.clone()));
    }
}

/// The events of a payload.
pub(crate) fn events(payload: &[u8]) -> Vec<Value> {
    let mut rest = payload;
    let batch = unpack(&mut rest);
    assert!(rest.is_empty() && batch[0].as_f64().unwrap() > 1.6e9 && batch[2] == 0, "{batch}");
    batch[1].as_array().unwrap().clone()
}

pub(crate) fn kinds(payload: &[u8]) -> Vec<String> {
    events(payload).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// A prompt that shares its beginning with others.
fn prompt(number: u32) -> Vec<u32> {
    let shared = (number % 3) * 1000;
    let own = 10_000 + (number * 7 % 11) * 100;
    (shared..shared + 20 + number % 5).chain(own..own + number * 13 % 40).collect()
}

#[tokio::test]
async fn a_mirror_of_the_events_predicts_every_reuse() {
    let config = SimConfig { block_size: BlockSize::new(8).unwrap(), kv_blocks: 24, ..SimConfig::default() };
    let engine = start(config).await;
    let mut dealer = Dealer::connect(&sources(&engine).await.replay).await.unwrap();
    let (mut mirror, mut next, mut removed, mut total) = (Mirror::default(), 0, 0, 0);
    for number in 0..120 {
        let (prompt, salt) = (prompt(number), if number % 4 == 3 { json!(["t"]) } else { Value::Null });
        let expected = mirror.cached(&prompt, &salt, 8);
        let mut body = json!({"prompt": prompt, "max_tokens": 1 + number % 30});
        if !salt.is_null() {
            body["cache_salt"] = salt[0].clone();
        }
        let answer = post(&engine, COMPLETIONS, &body).await.json();
        assert_eq!(cached_tokens(&answer), expected, "request {number}");
        total += expected;
        for (sequence, payload) in replay(&mut dealer, next).await {
            assert_eq!(sequence, next);
            next += 1;
            removed += kinds(&payload).iter().filter(|kind| *kind == "BlockRemoved").count();
            events(&payload).iter().for_each(|event| mirror.apply(event));
        }
        let contents = mirror.copies.values().filter(|copies| **copies > 0).count() as u64;
        assert_eq!(engine.stats().kv_contents_cached, contents, "behind request {number}");
    }
    assert!(removed > 100 && total > 500, "the workload reuses ({total}) and evicts ({removed})");
    assert_eq!(engine.stats().reused_tokens, total);
    engine.stop().await;
}

#[tokio::test]
async fn subscribers_get_what_replay_gives() {
    let engine = start(SimConfig { kv_blocks: 16, ..SimConfig::default() }).await;
    let sources = sources(&engine).await;
    let mut subscriber = Subscriber::connect(&sources.events, b"kv-").await.unwrap();
    let mut dealer = Dealer::connect(&sources.replay).await.unwrap();
    let mut live: Vec<(u64, Bytes)> = Vec::new();
    let read = |message: &Message| {
        let [topic, sequence, payload] = &message[..] else { panic!("three frames") };
        assert_eq!(&topic[..], b"kv-events");
        (u64::from_be_bytes(sequence[..].try_into().unwrap()), payload.clone())
    };
    // The subscription takes effect at some point; from there on nothing is missing.
    let mut number = 0;
    while live.len() < 50 {
        complete(&engine, &prompt(number), 20).await;
        number += 1;
        let patience = std::time::Duration::from_millis(50);
        while let Ok(message) = tokio::time::timeout(patience, subscriber.receive()).await {
            live.push(read(&message.unwrap()));
        }
    }
    let replayed = replay(&mut dealer, live[0].0).await;
    while live.len() < replayed.len() {
        live.push(read(&subscriber.receive().await.unwrap()));
    }
    assert_eq!(replayed, live);
    assert_eq!(replay(&mut dealer, 1_000_000).await, []);
    engine.stop().await;
}

#[tokio::test]
async fn events_come_in_the_order_of_vllm() {
    let engine = start(SimConfig { kv_blocks: 8, ..SimConfig::default() }).await;
    let mut dealer = Dealer::connect(&sources(&engine).await.replay).await.unwrap();
    let first: Vec<u32> = (0..60).collect();
    complete(&engine, &first, 6).await;
    let cold = replay(&mut dealer, 0).await;
    assert_eq!(cold.len(), 2, "one batch for the prompt, one for the block that filled later");
    let stored = &events(&cold[0].1)[0];
    assert_eq!(
        (stored["block_hashes"].as_array().unwrap().len(), &stored["parent_block_hash"]),
        (3, &Value::Null)
    );
    assert_eq!(events(&cold[1].1)[0]["parent_block_hash"], stored["block_hashes"][2]);
    complete(&engine, &first, 4).await;
    assert_eq!(replay(&mut dealer, 2).await, [], "a warm request changes nothing");

    complete(&engine, &(100..190).collect::<Vec<_>>(), 1).await;
    let evicting = replay(&mut dealer, 2).await;
    assert_eq!(kinds(&evicting[0].1), ["BlockRemoved", "BlockRemoved", "BlockStored"]);
    let removed: Vec<_> =
        events(&evicting[0].1)[..2].iter().map(|event| event["block_hashes"][0].clone()).collect();
    let deepest_first = [events(&cold[1].1)[0]["block_hashes"][0].clone(), stored["block_hashes"][2].clone()];
    assert_eq!(removed, deepest_first);
    engine.stop().await;
}

#[tokio::test]
async fn a_reset_is_announced_with_the_next_step() {
    let engine = start(SimConfig { decode_tps: 200, ..SimConfig::default() }).await;
    let mut dealer = Dealer::connect(&sources(&engine).await.replay).await.unwrap();
    let reset = async |query: &str| {
        post(&engine, &format!("/reset_prefix_cache{query}"), &json!({})).await.json()["success"].clone()
    };
    let prompt: Vec<u32> = (0..40).collect();
    complete(&engine, &prompt, 1).await;
    assert_eq!(reset("").await, true);
    assert_eq!(engine.stats().kv_blocks_used, 0);
    assert_eq!(replay(&mut dealer, 1).await, []);
    assert_eq!(cached_tokens(&complete(&engine, &prompt, 1).await), 0);
    assert_eq!(kinds(&replay(&mut dealer, 1).await[0].1), ["AllBlocksCleared", "BlockStored"]);

    let body = json!({"prompt": prompt, "max_tokens": 10_000, "stream": true});
    let running = open(&engine, COMPLETIONS, &body).await;
    until_stats(&engine, "it runs", |stats| stats.kv_blocks_held > 0).await;
    assert_eq!(reset("").await, false);
    let before = replay(&mut dealer, 2).await.len() as u64 + 2;
    assert_eq!(reset("?reset_running_requests=true").await, true);
    until_stats(&engine, "it runs again", |stats| stats.kv_blocks_held > 0).await;
    let after = replay(&mut dealer, before).await;
    let cleared = after.iter().find(|(_, payload)| kinds(payload)[0] == "AllBlocksCleared");
    assert_eq!(kinds(&cleared.unwrap().1), ["AllBlocksCleared", "BlockStored"]);
    drop(running);
    engine.stop().await;
}

#[tokio::test]
async fn subscribers_that_do_not_read_hold_up_nobody() {
    let engine = start(SimConfig { kv_blocks: 64, ..SimConfig::default() }).await;
    let sources = sources(&engine).await;
    let _deaf = Subscriber::connect(&sources.events, b"").await.unwrap();
    let mut silent = Dealer::connect(&sources.replay).await.unwrap();
    let request: Message = vec![Bytes::new(), Bytes::from_static(&[0; 8])];
    for number in 0..400u32 {
        silent.send(&request).await.unwrap();
        complete(&engine, &(number * 500..number * 500 + 400).map(|id| id % 150_000).collect::<Vec<_>>(), 1)
            .await;
    }
    assert_eq!(engine.stats().requests, 400);
    engine.stop().await;
}

#[tokio::test]
async fn a_replay_request_without_its_delimiter_is_ignored() {
    let engine = start(SimConfig::default()).await;
    let mut dealer = Dealer::connect(&sources(&engine).await.replay).await.unwrap();
    complete(&engine, &(0..40).collect::<Vec<_>>(), 1).await;
    dealer.send(&vec![Bytes::from_static(&[0; 8])]).await.unwrap();
    assert_eq!(replay(&mut dealer, 0).await.len(), 1, "only the well-formed request is answered");
    engine.stop().await;
}
