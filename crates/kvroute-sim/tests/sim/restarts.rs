//! An engine that restarts in place is another process at the same addresses.

use http_body_util::BodyExt;
use kvroute_sim::{Faults, Incident, SimConfig, SimEngine};
use kvroute_zmtp::{Dealer, Subscriber};
use serde_json::json;

use crate::events::{replay, sources};
use crate::http::{COMPLETIONS, cached_tokens, complete, get, open, post, start, until_stats};

async fn start_time(engine: &SimEngine) -> String {
    let metrics = get(engine, "/metrics").await.body;
    let text = String::from_utf8(metrics.to_vec()).unwrap();
    text.lines().find(|line| line.starts_with("process_start_time_seconds ")).unwrap().to_owned()
}

#[tokio::test]
async fn a_restart_empties_everything_but_addresses_and_switches() {
    let engine = start(SimConfig { decode_tps: 50, ..SimConfig::default() }).await;
    let prompt: Vec<u32> = (0..40).collect();
    complete(&engine, &prompt, 1).await;
    let (started, announced) = (start_time(&engine).await, get(&engine, "/kv_event_sources").await.json());
    engine.set_faults(Faults { no_report: true, ..Faults::default() }).await.unwrap();
    let addresses = sources(&engine).await;
    let mut subscriber = Subscriber::connect(&addresses.events, b"").await.unwrap();
    let body = json!({"prompt": "x", "max_tokens": 5000, "stream": true});
    let mut cut = open(&engine, COMPLETIONS, &body).await;
    cut.body_mut().frame().await.unwrap().unwrap();

    engine.cause(Incident::Restart).await;
    assert!(cut.into_body().collect().await.is_err(), "the stream must not end cleanly");
    while subscriber.receive().await.is_ok() {}
    assert_eq!(engine.stats(), kvroute_sim::EngineStats::default());
    assert_ne!(start_time(&engine).await, started);
    assert_eq!(get(&engine, "/kv_event_sources").await.json(), announced);
    assert_eq!(get(&engine, "/faults").await.json()["no_report"], true);
    engine.set_faults(Faults::default()).await.unwrap();
    let mut dealer = Dealer::connect(&addresses.replay).await.unwrap();
    assert_eq!(replay(&mut dealer, 0).await, []);
    assert_eq!(cached_tokens(&complete(&engine, &prompt, 1).await), 0);
    assert_eq!(replay(&mut dealer, 0).await[0].0, 0);
    engine.stop().await;
}

#[tokio::test]
async fn a_restart_by_http_is_answered_first() {
    let engine = start(SimConfig::default()).await;
    complete(&engine, &[1, 2, 3], 1).await;
    let answer = post(&engine, "/faults", &json!({"once": "restart", "delay_ms": 1})).await;
    assert_eq!(answer.json()["delay_ms"], 1);
    until_stats(&engine, "the new process runs", |stats| stats.requests == 0).await;
    complete(&engine, &[1, 2, 3], 1).await;
    assert_eq!(engine.stats().requests, 1);
    engine.stop().await;
}

#[tokio::test]
async fn every_answer_names_the_engine_that_gave_it() {
    let engine = start(SimConfig::default()).await;
    let response = open(&engine, COMPLETIONS, &json!({"prompt": "x", "max_tokens": 1})).await;
    assert_eq!(response.headers()["x-simulated-engine"], engine.address().to_string());
    engine.stop().await;
}
