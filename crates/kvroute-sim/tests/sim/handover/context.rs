//! TensorRT-LLM: the context engine's answer is put into the generation engine's request.

use hyper::StatusCode;
use kvroute_sim::{Faults, Flavour, SimConfig, SimEngine};
use serde_json::{Value, json};

use super::{ok, pair, prompt, sources, stop};
use crate::http::{CHAT, COMPLETIONS, cached_tokens, post, until_stats};

async fn engines() -> [SimEngine; 2] {
    pair(Flavour::TrtLlm, SimConfig::default()).await
}

async fn context(engine: &SimEngine) -> Value {
    let params = json!({"request_type": "context_only"});
    let body = json!({"model": "m", "prompt": prompt(), "max_tokens": 5, "disaggregated_params": params});
    ok(&post(engine, COMPLETIONS, &body).await)
}

fn generation(params: &Value) -> Value {
    let mut params = params.clone();
    params["request_type"] = json!("generation_only");
    json!({"model": "m", "prompt": prompt(), "max_tokens": 5, "disaggregated_params": params})
}

#[tokio::test]
async fn the_generation_engine_computes_nothing_of_the_context() {
    let engines = engines().await;
    let answer = context(&engines[0]).await;
    assert_eq!(
        (&answer["usage"]["completion_tokens"], &answer["prompt_token_ids"]),
        (&json!(1), &json!([prompt()]))
    );
    let params = &answer["choices"][0]["disaggregated_params"];
    assert_eq!(params["first_gen_tokens"].as_array().unwrap().len(), 1);
    let mut body = generation(params);
    body["disaggregated_params"]["ctx_usage"] = json!({"prompt_tokens": 40, "total_tokens": 41, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 3}});
    let answer = ok(&post(&engines[1], COMPLETIONS, &body).await);
    assert_eq!((cached_tokens(&answer), &answer["choices"][0]["disaggregated_params"]), (3, &Value::Null));
    assert_eq!((sources(engines[0].stats()), sources(engines[1].stats())), ((40, 0, 0), (0, 0, 40)));
    stop(engines).await;
}

#[tokio::test]
async fn a_chat_is_not_tokenized_twice() {
    let engines = engines().await;
    let messages = json!([{"role": "user", "content": "hello"}]);
    let params = json!({"request_type": "context_only"});
    let body = json!({"model": "m", "messages": messages, "max_tokens": 1, "disaggregated_params": params});
    let answer = ok(&post(&engines[0], CHAT, &body).await);
    let mut params = answer["choices"][0]["disaggregated_params"].clone();
    params["request_type"] = json!("generation_only");
    let body = json!({
        "model": "m", "messages": [{"role": "user", "content": "other words"}],
        "prompt_token_ids": answer["prompt_token_ids"], "max_tokens": 2,
        "disaggregated_params": params,
    });
    let usage = ok(&post(&engines[1], CHAT, &body).await)["usage"].take();
    assert_eq!(usage["prompt_tokens"], answer["usage"]["prompt_tokens"]);
    assert_eq!(sources(engines[1].stats()).0, 0);
    stop(engines).await;
}

#[tokio::test]
async fn a_context_that_is_gone_fails_the_generation() {
    let engines = engines().await;
    engines[0].set_faults(Faults { expire_leases: true, ..Faults::default() }).await.unwrap();
    let answer = context(&engines[0]).await;
    let body = generation(&answer["choices"][0]["disaggregated_params"]);
    assert_eq!(post(&engines[1], COMPLETIONS, &body).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    until_stats(&engines[0], "expired", |stats| stats.expired_leases == 1).await;
    stop(engines).await;
}
