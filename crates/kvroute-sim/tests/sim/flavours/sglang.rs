//! SGLang: shapes, ids, its cache's tenants, and how it dies.

use std::time::Duration;

use hyper::{Method, StatusCode};
use kvroute_sim::{Faults, Flavour, Incident, SimConfig};
use kvroute_zmtp::{Dealer, Endpoint};
use serde_json::{Value, json};

use super::{compare, config};
use crate::events::{events, replay};
use crate::http::{
    CHAT, COMPLETIONS, cached_tokens, complete, finish, get, open, post, send, start, until_stats,
};

fn sglang() -> SimConfig {
    config(Flavour::Sglang, 128)
}

#[tokio::test]
async fn answers_have_the_shape_of_recorded_ones() {
    let config = SimConfig { max_model_len: Some(2000), ..sglang() };
    let recording = include_bytes!("../../fixtures/sglang-http.jsonl.gz");
    compare(config, recording, &["get /server_info", "get /model_info", "get /get_model_info"]).await;
}

#[tokio::test]
async fn the_rid_becomes_the_id_and_aborts_the_request() {
    let engine = start(SimConfig { decode_tps: 50, ..sglang() }).await;
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 1000, "rid": "r-1", "model": "anything"});
    let answer = async { finish(open(&engine, COMPLETIONS, &body).await).await };
    let abort = async {
        until_stats(&engine, "generating", |stats| stats.generated_tokens > 0).await;
        post(&engine, "/abort_request", &json!({"rid": "another"})).await;
        post(&engine, "/abort_request", &json!({"rid": "r-1"})).await
    };
    let (answer, aborted) = tokio::join!(answer, abort);
    assert_eq!(aborted.status, StatusCode::OK);
    let answer = answer.json();
    assert_eq!((&answer["id"], &answer["model"]), (&json!("r-1"), &json!("anything")));
    assert_eq!(answer["choices"][0]["finish_reason"], "abort");
    until_stats(&engine, "idle", |stats| stats.running == 0 && stats.kv_blocks_held == 0).await;
    engine.stop().await;
}

#[tokio::test]
async fn an_extra_key_separates_like_a_salt() {
    let engine = start(sglang()).await;
    let prompt: Vec<u32> = (0..40).collect();
    complete(&engine, &prompt, 1).await;
    for separator in ["cache_salt", "extra_key"] {
        let mut reused = Vec::new();
        for _ in 0..2 {
            let body = json!({"prompt": prompt, "max_tokens": 1, separator: "tenant"});
            reused.push(cached_tokens(&post(&engine, COMPLETIONS, &body).await.json()));
        }
        assert_eq!(reused, [0, 32], "{separator}");
    }
    engine.stop().await;
}

#[tokio::test]
async fn a_cache_is_flushed_only_when_nothing_runs() {
    let engine = start(SimConfig { decode_tps: 50, ..sglang() }).await;
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 1000, "stream": true});
    let running = open(&engine, COMPLETIONS, &body).await;
    until_stats(&engine, "running", |stats| stats.running == 1).await;
    assert_eq!(post(&engine, "/flush_cache", &json!({})).await.status, StatusCode::BAD_REQUEST);
    drop(running);
    until_stats(&engine, "idle", |stats| stats.running == 0).await;
    assert_eq!(post(&engine, "/flush_cache", &json!({})).await.status, StatusCode::OK);
    assert_eq!(engine.stats().kv_blocks_used, 0);
    engine.stop().await;
}

#[tokio::test]
async fn one_token_id_that_does_not_exist_kills_the_server_until_it_is_started_again() {
    let engine = start(sglang()).await;
    let json = [("content-type", "application/json")];
    let body = json!({"prompt": [99_999_999], "max_tokens": 6}).to_string();
    assert!(send(&engine, Method::POST, COMPLETIONS, &json, body.clone()).await.is_err());
    // It listens until it is dead.
    while send(&engine, Method::GET, "/health", &[], "").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    engine.cause(Incident::Restart).await;
    assert_eq!(get(&engine, "/health").await.status, StatusCode::OK);
    engine.set_faults(Faults { survives_bad_tokens: true, ..Faults::default() }).await.unwrap();
    let answer = finish(send(&engine, Method::POST, COMPLETIONS, &json, body).await.unwrap()).await;
    assert_eq!((answer.status, &answer.json()["object"]), (StatusCode::BAD_REQUEST, &json!("error")));
    engine.stop().await;
}

#[tokio::test]
async fn pages_of_an_answer_are_told_in_one_event_at_its_end() {
    let engine = start(sglang()).await;
    let told = get(&engine, "/server_info").await.json()["kv_events"].take();
    let endpoint = Endpoint::new("127.0.0.1", told["replay_endpoint_port_base"].as_u64().unwrap() as u16);
    let mut dealer = Dealer::connect(&endpoint).await.unwrap();
    complete(&engine, &(0..20).collect::<Vec<_>>(), 30).await;
    let batches = replay(&mut dealer, 0).await;
    let told: Vec<_> = batches.iter().flat_map(|(_, payload)| events(payload)).collect();
    let pages = |event: &Value| event["block_hashes"].as_array().map_or(0, Vec::len);
    let kinds: Vec<_> = told.iter().map(|event| (event["type"].as_str().unwrap(), pages(event))).collect();
    // The last token is never computed: 49 of 50 make three pages.
    assert_eq!(kinds, [("AllBlocksCleared", 0), ("BlockStored", 1), ("BlockStored", 2)]);
    assert_eq!(told[2]["parent_block_hash"], told[1]["block_hashes"][0]);
    engine.stop().await;
}

#[tokio::test]
async fn pages_of_an_answer_that_nobody_waits_for_are_told_too() {
    let engine = start(SimConfig { decode_tps: 500, ..sglang() }).await;
    let body = json!({"prompt": (0..20).collect::<Vec<u32>>(), "max_tokens": 1000, "stream": true});
    let running = open(&engine, COMPLETIONS, &body).await;
    until_stats(&engine, "a page generated", |stats| stats.generated_tokens > 32).await;
    assert_eq!(engine.stats().kv_contents_cached, 1);
    drop(running);
    until_stats(&engine, "idle", |stats| stats.running == 0 && stats.kv_blocks_held == 0).await;
    assert!(engine.stats().kv_contents_cached >= 3);
    let told = get(&engine, "/server_info").await.json()["kv_events"].take();
    let endpoint = Endpoint::new("127.0.0.1", told["replay_endpoint_port_base"].as_u64().unwrap() as u16);
    let batches = replay(&mut Dealer::connect(&endpoint).await.unwrap(), 0).await;
    let last = events(&batches.last().unwrap().1).pop().unwrap();
    assert!(last["block_hashes"].as_array().unwrap().len() >= 2, "{last}");
    engine.stop().await;
}

#[tokio::test]
async fn token_ids_stand_where_it_puts_them_and_never_in_streams_of_chats() {
    let engine = start(sglang()).await;
    let mut text = json!({"prompt": [1, 2, 3], "max_tokens": 2, "return_token_ids": true});
    let whole = post(&engine, COMPLETIONS, &text).await.json()["choices"][0].take();
    assert_eq!(
        (whole["token_ids"].as_array().unwrap().len(), &whole["prompt_token_ids"]),
        (2, &json!([1, 2, 3]))
    );
    text["stream"] = json!(true);
    let events = post(&engine, COMPLETIONS, &text).await.events();
    let choice = |event: &str| serde_json::from_str::<Value>(event).unwrap()["choices"][0].take();
    assert_eq!(choice(&events[0])["prompt_token_ids"], json!([1, 2, 3]));
    assert_eq!(
        (
            choice(&events[1])["token_ids"].as_array().unwrap().len(),
            choice(&events[1]).get("prompt_token_ids")
        ),
        (1, None)
    );
    let mut chat =
        json!({"messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "return_token_ids": true});
    let whole = post(&engine, CHAT, &chat).await.json()["choices"][0].take();
    assert_eq!(whole["response_token_ids"].as_array().unwrap().len(), 2);
    chat["stream"] = json!(true);
    assert_eq!(post(&engine, CHAT, &chat).await.status, StatusCode::BAD_REQUEST);
    engine.stop().await;
}

#[tokio::test]
async fn reuse_is_not_told_without_the_cache_report() {
    let engine = start(SimConfig { prompt_tokens_details: false, ..sglang() }).await;
    let body = json!({"messages": [{"role": "user", "content": "hello"}], "max_tokens": 2});
    assert!(post(&engine, CHAT, &body).await.json()["usage"]["prompt_tokens_details"].is_null());
    assert_eq!(get(&engine, "/server_info").await.json()["enable_cache_report"], false);
    engine.stop().await;
}
