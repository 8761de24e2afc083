//! Recorded vLLM exchanges are sent to the simulation; the answers must have the same keys in the same order with
//! values of the same kind, event for event.

use std::io::Read;

use flate2::read::GzDecoder;
use hyper::Method;
use kvroute_core::BlockSize;
use kvroute_sim::SimConfig;
use serde_json::{Value, json};

use crate::http::{Answer, finish, get, send, start};

/// Values that programs compare with: they must be equal, not just alike.
const CONSTANTS: [&str; 10] =
    ["object", "role", "finish_reason", "type", "code", "owned_by", "index", "version", "success", "detail"];

/// The exchanges of a recording.
fn recorded(compressed: &[u8]) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(compressed).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The kind of a value: objects as ordered lists of keys, lists of numbers or of texts as one word.
pub(crate) fn shape(key: &str, value: &Value) -> Value {
    match value {
        constant if CONSTANTS.contains(&key) => constant.clone(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| json!([key, shape(key, value)])).collect::<Vec<_>>().into()
        }
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_number) => "numbers".into(),
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string) => "texts".into(),
        Value::Array(items) => items.iter().map(|item| shape(key, item)).collect::<Vec<_>>().into(),
        Value::String(_) => "text".into(),
        Value::Number(_) => "number".into(),
        Value::Bool(_) | Value::Null => value.clone(),
    }
}

/// The shapes of a body, or of each event of a stream. How the choices interleave depends on the step at which each
/// was taken up, so only the order within each choice counts.
pub(crate) fn shapes(body: &str) -> Vec<Value> {
    if !body.starts_with("data: ") {
        return vec![parsed(body).map_or_else(|| body.into(), |value| shape("", &value))];
    }
    let mut events: Vec<_> = body
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap())
        .map(|event| parsed(event).unwrap_or_else(|| event.into()))
        .collect();
    events.sort_by_key(|event| event["choices"][0]["index"].as_u64().unwrap_or(u64::MAX));
    events.iter().map(|event| shape("", event)).collect()
}

pub(crate) fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

async fn replay(engine: &kvroute_sim::SimEngine, exchange: &Value) -> Answer {
    let text = |field: &str| exchange[field].as_str().unwrap();
    let headers = exchange["headers"].as_array().unwrap().iter();
    let headers: Vec<_> =
        headers.map(|pair| (pair[0].as_str().unwrap(), pair[1].as_str().unwrap())).collect();
    let method = Method::from_bytes(text("method").as_bytes()).unwrap();
    finish(send(engine, method, text("path"), &headers, text("body").to_owned()).await.unwrap()).await
}

/// Replays every exchange of a recording, and hands each over with the body of an answer whose status and content type are as
/// recorded.
pub(crate) async fn replay_all(config: SimConfig, compressed: &[u8], compare: impl Fn(&str, &Value, &str)) {
    let engine = start(config).await;
    let exchanges = recorded(compressed);
    assert!(exchanges.len() > 30, "the recording is there");
    for exchange in exchanges {
        let name = exchange["name"].as_str().unwrap();
        let answer = replay(&engine, &exchange).await;
        let body = std::str::from_utf8(&answer.body).unwrap();
        assert_eq!(exchange["status"], answer.status.as_u16(), "{name}: {body}");
        assert_eq!(exchange["content_type"].as_str(), answer.content_type.as_deref(), "{name}");
        compare(name, &exchange, body);
    }
    engine.stop().await;
}

#[tokio::test]
async fn answers_have_the_shape_of_recorded_ones() {
    let config = SimConfig {
        model: String::from("tiny-qwen3"),
        block_size: BlockSize::new(32).unwrap(),
        kv_blocks: 64,
        ..SimConfig::default()
    };
    let recording = include_bytes!("../fixtures/vllm-http.jsonl.gz");
    replay_all(config, recording, |name, exchange, body| {
        let response = exchange["response"].as_str().unwrap();
        assert_eq!(shapes(body), shapes(response), "{name}: {body}");
        if let Some(param) = parsed(response).unwrap_or_default()["error"].get("param") {
            assert_eq!(&parsed(body).unwrap()["error"]["param"], param, "{name}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_request_id_becomes_the_answer_id() {
    let engine = start(SimConfig::default()).await;
    let headers = [("content-type", "application/json"), ("x-request-id", "abc-123")];
    let body = r#"{"messages":[{"role":"user","content":"x"}],"max_tokens":1}"#;
    let answer =
        finish(send(&engine, Method::POST, "/v1/chat/completions", &headers, body).await.unwrap()).await;
    assert_eq!(answer.json()["id"], "chatcmpl-abc-123");
    engine.stop().await;
}

#[tokio::test]
async fn metrics_have_the_names_and_labels_of_vllm() {
    let engine =
        start(SimConfig { model: String::from("m\"1"), kv_blocks: 64, ..SimConfig::default() }).await;
    let prompt: Vec<u32> = (0..40).collect();
    crate::http::complete(&engine, &prompt, 3).await;
    crate::http::complete(&engine, &prompt, 3).await;
    let answer = get(&engine, "/metrics").await;
    let text = std::str::from_utf8(&answer.body).unwrap();
    let labels = r#"{engine="0",model_name="m\"1"}"#;
    for line in [
        format!("vllm:num_requests_running{labels} 0.0"),
        format!("vllm:num_requests_waiting{labels} 0.0"),
        format!("vllm:kv_cache_usage_perc{labels} 0.0"),
        format!("vllm:prefix_cache_queries_total{labels} 80.0"),
        format!("vllm:prefix_cache_hits_total{labels} 32.0"),
        format!("vllm:prompt_tokens_total{labels} 80.0"),
        format!("vllm:generation_tokens_total{labels} 6.0"),
        String::from("# TYPE vllm:prompt_tokens_total counter"),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
    let value = |start: &str| text.lines().find_map(|line| line.strip_prefix(start)).unwrap().to_owned();
    let config = value("vllm:cache_config_info");
    assert!(config.contains(r#"block_size="16""#) && config.contains(r#"num_gpu_blocks="65""#), "{config}");
    assert!(value("process_start_time_seconds ").parse::<f64>().unwrap() > 1.6e9);
    engine.stop().await;
}
