//! Start, stop, and what happens to those who are connected.

use std::net::SocketAddr;

use http_body_util::BodyExt;
use hyper::StatusCode;
use kvroute_sim::{EventEndpoint, SimConfig, SimEngine, StartError};
use serde_json::json;

use crate::encoder::encoder;
use crate::http::{COMPLETIONS, complete, get, open, post, start};

#[tokio::test]
async fn stopping_cuts_streams_and_frees_every_address() {
    let mut config = SimConfig { decode_tps: 50, kv_blocks: 4096, ..SimConfig::default() };
    let engine = start(config.clone()).await;
    let sources = get(&engine, "/kv_event_sources").await.json();
    config.listen = engine.address();
    config.kv_events = sources["0"]["endpoint"].as_str().unwrap().parse().unwrap();
    config.kv_replay = sources["0"]["replay_endpoint"].as_str().unwrap().parse().unwrap();
    let body = json!({"prompt": "x", "max_tokens": 5000, "stream": true});
    let mut response = open(&engine, COMPLETIONS, &body).await;
    response.body_mut().frame().await.unwrap().unwrap();
    engine.stop().await;
    assert!(response.into_body().collect().await.is_err(), "the stream must not end cleanly");

    let engine = start(config).await;
    assert_eq!(get(&engine, "/kv_event_sources").await.json(), sources);
    assert_eq!(engine.stats().requests, 0);
    complete(&engine, &[1, 2, 3], 1).await;
    engine.stop().await;
}

#[tokio::test]
async fn many_engines_live_in_one_process() {
    let mut engines = Vec::new();
    for _ in 0..8 {
        engines.push(start(SimConfig::default()).await);
    }
    let addresses: std::collections::HashSet<SocketAddr> = engines.iter().map(SimEngine::address).collect();
    assert_eq!(addresses.len(), 8);
    complete(&engines[3], &[1, 2, 3], 2).await;
    let requests: Vec<_> = engines.iter().map(|engine| engine.stats().requests).collect();
    assert_eq!(requests, [0, 0, 0, 1, 0, 0, 0, 0]);
    for engine in engines {
        engine.stop().await;
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let engine = start(SimConfig::default()).await;
    let taken = SimConfig { listen: engine.address(), ..SimConfig::default() };
    let error = SimEngine::start(taken, encoder()).await.unwrap_err();
    assert!(
        matches!(error, StartError::Listen { .. })
            && error.to_string().contains(&engine.address().to_string())
    );
    let sources = get(&engine, "/kv_event_sources").await.json();
    let taken = sources["0"]["endpoint"].as_str().unwrap().to_owned();
    let config = SimConfig { kv_events: taken.parse().unwrap(), ..SimConfig::default() };
    let error = SimEngine::start(config, encoder()).await.unwrap_err();
    assert!(error.to_string().contains(&taken), "{error}");
    engine.stop().await;
}

#[tokio::test]
async fn an_engine_without_events_says_so() {
    let engine = start(SimConfig { kv_events: EventEndpoint::None, ..SimConfig::default() }).await;
    assert_eq!(get(&engine, "/kv_event_sources").await.json(), json!({}));
    complete(&engine, &[1, 2, 3], 2).await;
    engine.stop().await;
}

#[tokio::test]
async fn more_choices_than_an_engine_can_hold_are_refused_by_number() {
    let engine = start(SimConfig::default()).await;
    for (prompt, choices, message) in [
        (json!("a"), u32::MAX, "n must be at most 16384, got 4294967295. (parameter=n, value=4294967295)"),
        (
            json!(["a", "b"]),
            8_193,
            "n must be at most 8192 for 2 prompts, got 8193. (parameter=n, value=8193)",
        ),
    ] {
        let mut body = json!({"model": "sim", "prompt": prompt, "max_tokens": 1, "n": choices});
        let answer = post(&engine, COMPLETIONS, &body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert_eq!(answer.json()["error"]["message"], message);
        assert_eq!(answer.json()["error"]["param"], "n");
        body["n"] = json!(2);
        assert_eq!(post(&engine, COMPLETIONS, &body).await.status, StatusCode::OK);
    }
    engine.stop().await;
}
