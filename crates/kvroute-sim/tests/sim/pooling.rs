//! Endpoints of models that generate nothing.

use hyper::StatusCode;
use kvroute_sim::{Flavour, SimConfig, SimEngine};
use serde_json::{Value, json};

use crate::http::{post, start};

const PATHS: [&str; 3] = ["/v1/embeddings", "/v1/rerank", "/v1/score"];

async fn flavoured(flavour: Flavour) -> SimEngine {
    start(SimConfig { flavour, ..SimConfig::default() }).await
}

async fn ask(engine: &SimEngine, path: &str, body: &Value) -> Value {
    let answer = post(engine, path, body).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    answer.json()
}

#[tokio::test]
async fn each_engine_serves_what_it_has() {
    let body = json!({"input": [[1, 2], [3]], "query": "1", "documents": ["1", "2"], "text_1": [1], "text_2": [[1], [2]]});
    let served = [
        (Flavour::Vllm, [200, 200, 200]),
        (Flavour::Sglang, [200, 200, 200]),
        (Flavour::TrtLlm, [404, 404, 404]),
        (Flavour::LlamaCpp, [200, 200, 404]),
    ];
    for (flavour, expected) in served {
        let engine = flavoured(flavour).await;
        for (path, status) in PATHS.into_iter().zip(expected) {
            assert_eq!(post(&engine, path, &body).await.status, status, "{flavour} {path}");
        }
        engine.stop().await;
    }
}

#[tokio::test]
async fn equal_texts_have_equal_vectors_and_usage_counts_all_tokens() {
    let engine = flavoured(Flavour::Vllm).await;
    let answer = ask(&engine, "/v1/embeddings", &json!({"input": [[1, 2, 3], [4], [1, 2, 3]]})).await;
    let vectors: Vec<_> = (0..3).map(|index| answer["data"][index]["embedding"].clone()).collect();
    assert_eq!(vectors[0], vectors[2]);
    assert_ne!(vectors[0], vectors[1]);
    assert_eq!((&answer["usage"]["prompt_tokens"], &answer["object"]), (&json!(7), &json!("list")));
    assert_eq!(engine.stats().prompt_tokens, 0, "nothing is computed by the model that generates");
    engine.stop().await;
}

#[tokio::test]
async fn the_likest_document_comes_first() {
    let engine = flavoured(Flavour::Vllm).await;
    let body = json!({"query": "1 2 3", "documents": ["7 8", "1 2 3", "1 9"], "top_n": 2});
    let answer = ask(&engine, "/v1/rerank", &body).await;
    let order: Vec<_> = answer["results"].as_array().unwrap().iter().map(|result| &result["index"]).collect();
    assert_eq!(order, [&json!(1), &json!(2)]);
    engine.stop().await;
}

#[tokio::test]
async fn a_field_that_is_missing_is_named() {
    let engine = flavoured(Flavour::Vllm).await;
    for (path, field) in PATHS.into_iter().zip(["input", "query", "text_1"]) {
        let refusal = post(&engine, path, &json!({})).await;
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        assert_eq!(refusal.json()["error"]["param"], format!("body.{field}"));
    }
    engine.stop().await;
}
