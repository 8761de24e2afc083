//! llama.cpp: shapes, its slots, and what it tells unasked.

use hyper::StatusCode;
use kvroute_sim::{Flavour, SimConfig};
use serde_json::{Value, json};

use super::{compare, config};
use crate::http::{CHAT, COMPLETIONS, cached_tokens, get, open, post, start, until_stats};

/// Four slots of 2,048 tokens.
fn llama() -> SimConfig {
    config(Flavour::LlamaCpp, 512)
}

#[tokio::test]
async fn answers_have_the_shape_of_recorded_ones() {
    let recording = include_bytes!("../../fixtures/llamacpp-http.jsonl.gz");
    // How many pieces a text has is a matter of the tokenizer.
    let selections = ["get /props", "tokenize"];
    compare(llama(), recording, &selections).await;
}

#[tokio::test]
async fn reuse_is_exact_and_stays_in_its_slot() {
    let engine = start(llama()).await;
    let prompt: Vec<u32> = (0..50).collect();
    let ask = async |more: Value| {
        let mut body = json!({"prompt": prompt, "max_tokens": 1});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = post(&engine, COMPLETIONS, &body).await.json();
        (
            cached_tokens(&answer),
            answer["timings"]["cache_n"].as_u64(),
            answer["timings"]["prompt_n"].as_u64(),
        )
    };
    let told = |reused: u64| (reused, Some(reused), Some(50 - reused));
    assert_eq!(ask(json!({})).await, told(0));
    assert_eq!(ask(json!({})).await, told(49));
    assert_eq!(ask(json!({"cache_prompt": false})).await, told(0));
    assert_eq!(ask(json!({"id_slot": 3})).await, told(0));
    let slots = get(&engine, "/slots").await.json();
    let empty = json!({"id": 1, "n_ctx": 2048, "speculative": false, "is_processing": false});
    assert_eq!(slots[1], empty, "a slot that was never used");
    let full = slots.as_array().unwrap().iter().filter(|slot| slot["n_prompt_tokens"] == 50);
    assert_eq!(full.count(), 2, "{slots}");
    engine.stop().await;
}

#[tokio::test]
async fn a_fifth_request_is_deferred_until_a_slot_is_idle() {
    let engine = start(SimConfig { decode_tps: 50, ..llama() }).await;
    let mut open_streams = Vec::new();
    for first in 0u32..5 {
        let body = json!({"prompt": [first, 7, 8], "max_tokens": 1000, "stream": true});
        if first < 4 {
            open_streams.push(open(&engine, COMPLETIONS, &body).await);
            until_stats(&engine, "running", |stats| stats.running > u64::from(first)).await;
        } else {
            let waits = async { open(&engine, COMPLETIONS, &body).await };
            let frees = async {
                until_stats(&engine, "deferred", |stats| stats.waiting == 1).await;
                open_streams.pop();
            };
            let (response, ()) = tokio::join!(waits, frees);
            until_stats(&engine, "taken up", |stats| (stats.running, stats.waiting) == (4, 0)).await;
            drop(response);
        }
    }
    engine.stop().await;
}

#[tokio::test]
async fn an_answer_ends_with_the_context_and_only_one_of_several_is_counted() {
    let engine = start(llama()).await;
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 100_000});
    let usage = &post(&engine, COMPLETIONS, &body).await.json()["usage"];
    assert_eq!(usage["total_tokens"], 2048);
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 4, "n": 2});
    let usage = &post(&engine, COMPLETIONS, &body).await.json()["usage"];
    assert_eq!(
        (&usage["completion_tokens"], &usage["total_tokens"]),
        (&json!(4), &json!(7)),
        "one answer of two"
    );
    let body = json!({"messages": [{"role": "user", "content": "x"}], "n": 5});
    assert_eq!(post(&engine, CHAT, &body).await.status, StatusCode::BAD_REQUEST);
    engine.stop().await;
}

#[tokio::test]
async fn a_stream_of_several_prompts_begins_with_nothing_and_ends_each_with_its_usage() {
    let engine = start(llama()).await;
    let body = json!({"prompt": [[1, 2, 3], [4, 5]], "max_tokens": 2, "stream": true});
    let events = post(&engine, COMPLETIONS, &body).await.events();
    assert_eq!(events[0], "null");
    let events: Vec<Value> = events.iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
    let ends = events.iter().filter(|event| event["choices"][0]["finish_reason"] == "length");
    let mut lengths: Vec<_> = ends.map(|event| event["usage"]["prompt_tokens"].as_u64().unwrap()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [2, 3]);
    engine.stop().await;
}
