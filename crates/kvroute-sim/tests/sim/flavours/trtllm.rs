//! TensorRT-LLM, of which there is no recording: what its source says.

use hyper::StatusCode;
use kvroute_sim::{Flavour, SimConfig};
use serde_json::{Value, json};

use super::config;
use crate::http::{CHAT, COMPLETIONS, get, post, start};

fn trtllm() -> SimConfig {
    config(Flavour::TrtLlm, 128)
}

fn chat() -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

#[tokio::test]
async fn fields_that_it_does_not_know_are_refused() {
    let engine = start(trtllm()).await;
    for field in ["return_token_ids", "kv_transfer_params", "rid", "request_id"] {
        let answer = post(&engine, CHAT, &with(chat(), field, json!(true))).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{field}");
        assert!(answer.json()["error"].as_str().unwrap().contains("Extra inputs are not permitted"));
    }
    let salted = json!({"model": "m", "prompt": [1, 2], "cache_salt": "s"});
    assert_eq!(post(&engine, COMPLETIONS, &salted).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(post(&engine, CHAT, &with(chat(), "cache_salt", json!("s"))).await.status, StatusCode::OK);
    let unnamed = json!({"messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(post(&engine, CHAT, &unnamed).await.status, StatusCode::BAD_REQUEST);
    engine.stop().await;
}

#[tokio::test]
async fn reuse_is_always_told_and_streams_of_chats_leave_nulls_out() {
    let engine = start(SimConfig { prompt_tokens_details: false, ..trtllm() }).await;
    let whole = post(&engine, CHAT, &chat()).await.json();
    assert_eq!(whole["usage"]["prompt_tokens_details"], json!({"cached_tokens": 0}));
    assert_eq!((&whole["model"], whole["choices"][0]["stop_reason"].is_null()), (&json!("m"), true));
    let body = with(with(chat(), "stream", json!(true)), "stream_options", json!({"include_usage": true}));
    let answer = post(&engine, CHAT, &body).await;
    let text = std::str::from_utf8(&answer.body).unwrap();
    assert!(text.split_once("\n\n").unwrap().0.ends_with("} "), "{text}");
    let events: Vec<Value> =
        answer.events().iter().filter_map(|event| serde_json::from_str(event).ok()).collect();
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant"}));
    assert!(events[0].get("usage").is_none() && events[0]["choices"][0].get("finish_reason").is_none());
    let finish: Vec<_> = events.iter().map(|event| &event["choices"][0]["finish_reason"]).collect();
    assert_eq!(finish, [&json!(null), &json!(null), &json!(null), &json!("length"), &json!(null)]);
    assert!(events[4]["usage"]["prompt_tokens_details"]["cached_tokens"].is_u64(), "{:?}", events[4]);
    engine.stop().await;
}

#[tokio::test]
async fn events_are_told_once_to_whoever_asks() {
    let engine = start(trtllm()).await;
    let prompt: Vec<u32> = (0..40).collect();
    post(&engine, COMPLETIONS, &json!({"model": "m", "prompt": prompt, "max_tokens": 10})).await;
    let events = post(&engine, "/kv_cache_events", &json!({})).await.json();
    let told: Vec<_> = events.as_array().unwrap().iter().map(|event| &event["data"]).collect();
    let kinds: Vec<_> = told.iter().map(|data| data["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["created", "stored", "stored"]);
    assert_eq!(told[1]["blocks"].as_array().unwrap().len(), 2);
    assert_eq!(told[2]["parent_hash"], told[1]["blocks"][1]["block_hash"]);
    assert_eq!(post(&engine, "/kv_cache_events", &json!({})).await.json(), json!([]));
    assert_eq!(get(&engine, "/kv_cache_events").await.status, StatusCode::METHOD_NOT_ALLOWED);
    engine.stop().await;
}

#[tokio::test]
async fn it_tells_what_it_is() {
    let engine = start(trtllm()).await;
    let model = &get(&engine, "/v1/models").await.json()["data"][0];
    assert_eq!((&model["owned_by"], model.get("max_model_len")), (&json!("tensorrt_llm"), None));
    assert!(get(&engine, "/version").await.json()["version"].is_string());
    let tokens = post(&engine, "/_internal/tokenize", &json!({"prompt": "ab"})).await.json();
    assert_eq!(tokens, json!({"count": 2, "tokens": [97, 98]}));
    assert_eq!(get(&engine, "/health").await.status, StatusCode::OK);
    let exposition = get(&engine, "/prometheus/metrics/").await;
    assert!(std::str::from_utf8(&exposition.body).unwrap().contains("trtllm_num_active_requests{"));
    engine.stop().await;
}
