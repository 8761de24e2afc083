//! Data-parallel ranks: each has a cache, events and figures of its own.

use hyper::{Method, StatusCode};
use kvroute_sim::{EventEndpoint, Flavour, SimConfig, SimEngine};
use serde_json::{Value, json};

use crate::http::{COMPLETIONS, cached_tokens, complete, finish, get, post, send, start};

fn config(flavour: Flavour) -> SimConfig {
    SimConfig { flavour, dp_ranks: 3, ..SimConfig::default() }
}

async fn steered(engine: &SimEngine, prompt: &[u32], rank: &str) -> crate::http::Answer {
    let headers = [("content-type", "application/json"), ("x-data-parallel-rank", rank)];
    let body = json!({ "prompt": prompt, "max_tokens": 1 }).to_string();
    finish(send(engine, Method::POST, COMPLETIONS, &headers, body).await.unwrap()).await
}

#[tokio::test]
async fn a_rank_knows_nothing_of_the_others_and_requests_take_turns() {
    let prompt: Vec<u32> = (0..40).collect();
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        let engine = start(config(flavour)).await;
        let mut reused = Vec::new();
        for rank in ["0", "1", "1", "2", "0"] {
            reused.push(cached_tokens(&steered(&engine, &prompt, rank).await.json()));
        }
        assert_eq!(reused, [0, 0, 32, 0, 32], "{flavour}");
        let other: Vec<u32> = (100..140).collect();
        let mut reused = Vec::new();
        for _ in 0..4 {
            reused.push(cached_tokens(&complete(&engine, &other, 1).await));
        }
        assert_eq!(reused, [0, 0, 0, 32], "{flavour}");
        let refused = steered(&engine, &prompt, "3").await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(String::from_utf8_lossy(&refused.body).contains("[0, 3)"), "{:?}", refused.body);
        assert_eq!((engine.stats().requests, engine.stats().prompt_tokens), (9, 360));
        engine.stop().await;
    }
}

#[tokio::test]
async fn sglang_is_steered_by_its_body_too() {
    let engine = start(config(Flavour::Sglang)).await;
    let body = json!({"prompt": [1, 2, 3], "max_tokens": 1, "routed_dp_rank": 2});
    assert_eq!(post(&engine, COMPLETIONS, &body).await.status, StatusCode::OK);
    let loads = get(&engine, "/v1/loads").await.json();
    let computed: Vec<_> = loads["loads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|load| &load["total_prefill_uncached_tokens"])
        .collect();
    assert_eq!(computed, [&json!(0), &json!(0), &json!(3)]);
    let body = json!({"prompt": [1, 2, 3], "routed_dp_rank": 3});
    assert_eq!(post(&engine, COMPLETIONS, &body).await.status, StatusCode::BAD_REQUEST);
    engine.stop().await;
}

fn port(endpoint: &Value) -> u16 {
    endpoint.as_str().unwrap().rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn events_are_on_ports_in_a_row_and_metrics_have_a_series_a_rank() {
    let engine = start(config(Flavour::Vllm)).await;
    let sources = get(&engine, "/kv_event_sources").await.json();
    assert_eq!(sources.as_object().unwrap().len(), 3);
    for rank in 0u16..3 {
        let source = &sources[rank.to_string()];
        assert_eq!(port(&source["endpoint"]), port(&sources["0"]["endpoint"]) + rank);
        assert_eq!(port(&source["replay_endpoint"]), port(&sources["0"]["replay_endpoint"]) + rank);
    }
    let text = String::from_utf8(get(&engine, "/metrics").await.body.to_vec()).unwrap();
    for rank in 0..3 {
        let line = format!("vllm:num_requests_running{{engine=\"{rank}\",model_name=\"sim\"}} 0.0");
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
    engine.stop().await;
    let engine = start(config(Flavour::Sglang)).await;
    let info = get(&engine, "/server_info").await.json();
    assert_eq!((&info["dp_size"], &info["kv_events"]["dp_size"]), (&json!(3), &json!(3)));
    engine.stop().await;
}

#[tokio::test]
async fn ranks_need_an_engine_that_has_them() {
    for (flavour, dp_ranks) in [(Flavour::LlamaCpp, 2), (Flavour::TrtLlm, 2), (Flavour::Vllm, 0)] {
        let config = SimConfig { flavour, dp_ranks, kv_events: EventEndpoint::None, ..SimConfig::default() };
        let refused = SimEngine::start(config, crate::encoder::encoder()).await.unwrap_err().to_string();
        assert!(refused.contains("dp_ranks"), "{refused}");
    }
}
