//! Chats with images: placeholder tokens that are equal for all images, blocks that are not, and an engine that tells both.

use std::path::Path;
use std::sync::Arc;

use hyper::StatusCode;
use kvroute_core::BlockSize;
use kvroute_sim::{Faults, Flavour, SimConfig, SimEngine, TokenizerEncoder};
use serde_json::{Value, json};

use crate::http::{Answer, CHAT, cached_tokens, get, post};

const RENDER: &str = "/v1/chat/completions/render";
const SIZE: usize = 16;
/// Some blocks and a part of one.
const IMAGE_TOKENS: usize = 40;

fn config() -> SimConfig {
    SimConfig {
        image_tokens: IMAGE_TOKENS as u32,
        scale_out: true,
        block_size: BlockSize::new(SIZE as u32).unwrap(),
        ..SimConfig::default()
    }
}

async fn start(config: SimConfig) -> SimEngine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo-tokenizer");
    SimEngine::start(config, Arc::new(TokenizerEncoder::load(&folder).unwrap())).await.unwrap()
}

/// A question about images, with some text before and behind them.
fn chat(images: &[&str]) -> Value {
    let image = |data: &&str| json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}});
    let mut parts = vec![json!({"type": "text", "text": "Look at this one. ".repeat(6)})];
    parts.extend(images.iter().map(image));
    parts.push(json!({"type": "text", "text": "What do you see there, and what not? ".repeat(6)}));
    json!({"model": "sim", "messages": [{"role": "user", "content": parts}], "max_tokens": 1, "return_token_ids": true})
}

async fn ask(engine: &SimEngine, images: &[&str]) -> Value {
    let answer: Answer = post(engine, CHAT, &chat(images)).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json()
}

async fn rendered(engine: &SimEngine, images: &[&str]) -> Value {
    let answer = post(engine, RENDER, &chat(images)).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json()
}

#[tokio::test]
async fn equal_images_share_blocks_and_others_only_what_stands_before_them() {
    let engine = start(config()).await;
    let first = ask(&engine, &["cat"]).await;
    let offset =
        rendered(&engine, &["cat"]).await["features"]["mm_placeholders"]["image"][0]["offset"].clone();
    let prompt = first["usage"]["prompt_tokens"].as_u64().unwrap() as usize;
    let (all, before) = ((prompt - 1) / SIZE * SIZE, offset.as_u64().unwrap() as usize / SIZE * SIZE);
    assert!(before >= SIZE && all > before + IMAGE_TOKENS, "{before} of {all}");
    assert_eq!(cached_tokens(&first), 0);
    assert_eq!(cached_tokens(&ask(&engine, &["cat"]).await), all as u64);
    assert_eq!(cached_tokens(&ask(&engine, &["dog"]).await), before as u64);
    assert_eq!(cached_tokens(&ask(&engine, &["cat"]).await), all as u64);
    engine.stop().await;
}

#[tokio::test]
async fn what_is_rendered_is_what_is_computed() {
    let engine = start(config()).await;
    let (answer, told) = (ask(&engine, &["cat", "dog"]).await, rendered(&engine, &["cat", "dog"]).await);
    assert_eq!(told["token_ids"], answer["prompt_token_ids"]);
    let features = &told["features"];
    let (names, places) = (&features["mm_hashes"]["image"], &features["mm_placeholders"]["image"]);
    assert_ne!(names[0], names[1]);
    assert_eq!(names[0], rendered(&engine, &["cat"]).await["features"]["mm_hashes"]["image"][0]);
    let ids = told["token_ids"].as_array().unwrap();
    for place in places.as_array().unwrap() {
        let start = place["offset"].as_u64().unwrap() as usize;
        let length = place["length"].as_u64().unwrap() as usize;
        assert_eq!(length, IMAGE_TOKENS);
        assert!(ids[start..start + length].iter().all(|id| *id == ids[start]), "placeholders are alike");
    }
    engine.stop().await;
}

#[tokio::test]
async fn a_chat_without_images_is_rendered_without_features() {
    let engine = start(config()).await;
    let told = rendered(&engine, &[]).await;
    assert_eq!(told["token_ids"], ask(&engine, &[]).await["prompt_token_ids"]);
    assert!(told["features"].is_null());
    engine.stop().await;
}

#[tokio::test]
async fn rendering_is_refused_where_it_is_not_served_and_fails_where_it_is_told_to() {
    let closed = start(SimConfig { scale_out: false, ..config() }).await;
    let refusal = post(&closed, RENDER, &chat(&["cat"])).await;
    assert_eq!(refusal.status, StatusCode::FORBIDDEN);
    assert_eq!(refusal.json()["error"]["type"], "PermissionDeniedError");
    assert!(refusal.json()["error"]["message"].as_str().unwrap().contains("--enable-scale-out"));
    closed.stop().await;

    let failing =
        start(SimConfig { faults: Faults { fail_render: true, ..Faults::default() }, ..config() }).await;
    assert_eq!(post(&failing, RENDER, &chat(&["cat"])).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(ask(&failing, &["cat"]).await["usage"]["completion_tokens"], 1, "it still answers");
    failing.stop().await;
}

#[tokio::test]
async fn images_are_counted_and_models_without_eyes_refuse_them() {
    let engine = start(config()).await;
    ask(&engine, &["cat", "dog"]).await;
    ask(&engine, &["cat"]).await;
    let metrics = get(&engine, "/metrics").await.body;
    let text = std::str::from_utf8(&metrics).unwrap();
    assert!(text.contains(r#"vllm:mm_cache_queries_total{engine="0",model_name="sim"} 3.0"#), "{text}");
    engine.stop().await;

    let blind = start(SimConfig { image_tokens: 0, ..config() }).await;
    let refusal = post(&blind, CHAT, &chat(&["cat"])).await;
    assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
    assert!(refusal.json()["error"]["message"].as_str().unwrap().contains("At most 0 image(s)"));
    blind.stop().await;

    let other = SimConfig { flavour: Flavour::Sglang, ..config() };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/demo-tokenizer");
    let started = SimEngine::start(other, Arc::new(TokenizerEncoder::load(&folder).unwrap())).await;
    assert!(started.unwrap_err().to_string().contains("image_tokens is 40"));
}
