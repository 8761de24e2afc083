//! What usage says is what the engine counted.

use hyper::StatusCode;
use kvroute_core::BlockSize;
use kvroute_sim::{Flavour, SimConfig};
use serde_json::{Value, json};

use crate::encoder::encode_text;
use crate::http::{CHAT, COMPLETIONS, cached_tokens, complete, post, start};

fn numbers(range: std::ops::Range<u32>) -> Vec<u32> {
    range.collect()
}

#[tokio::test]
async fn reuse_is_whole_blocks_up_to_the_last_token() {
    let engine = start(SimConfig { block_size: BlockSize::new(32).unwrap(), ..SimConfig::default() }).await;
    let mut seen = Vec::new();
    for prompt in [numbers(0..100), numbers(0..100), numbers(0..64), numbers(0..65), numbers(1..100)] {
        seen.push(cached_tokens(&complete(&engine, &prompt, 1).await));
    }
    assert_eq!(seen, [0, 96, 32, 64, 0]);
    engine.stop().await;
}

#[tokio::test]
async fn the_sum_of_usage_is_the_statistics() {
    let engine = start(SimConfig { kv_blocks: 64, ..SimConfig::default() }).await;
    let (mut prompt_tokens, mut cached, mut completion) = (0, 0, 0);
    let mut messages = vec![json!({"role": "system", "content": "Answer briefly. ".repeat(4)})];
    for turn in 0..12 {
        messages.push(json!({"role": "user", "content": format!("Question {turn}?")}));
        let stream = turn % 2 == 0;
        let mut body = json!({"messages": messages, "max_tokens": 8 + turn, "stream": stream});
        if stream {
            body["stream_options"] = json!({"include_usage": true});
        }
        let answer = post(&engine, CHAT, &body).await;
        let (text, usage) = if stream { streamed(&answer.events()) } else { whole(&answer.json()) };
        prompt_tokens += usage["prompt_tokens"].as_u64().unwrap();
        completion += usage["completion_tokens"].as_u64().unwrap();
        cached += usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        messages.push(json!({"role": "assistant", "content": text}));
    }
    let stats = engine.stats();
    assert_eq!((stats.requests, stats.prompt_tokens, stats.reused_tokens), (12, prompt_tokens, cached));
    assert_eq!((stats.computed_tokens, stats.generated_tokens), (prompt_tokens - cached, completion));
    assert!(cached > 0 && stats.kv_blocks_used > 0, "{stats:?}");
    let told = crate::http::get(&engine, "/stats").await.json();
    assert_eq!(told, serde_json::to_value(stats).unwrap());
    engine.stop().await;
}

fn whole(answer: &Value) -> (String, Value) {
    (answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned(), answer["usage"].clone())
}

fn streamed(events: &[String]) -> (String, Value) {
    let mut text = String::new();
    let (mut usage, mut is_done) = (Value::Null, false);
    for event in events {
        assert!(!is_done, "nothing follows the end mark");
        is_done = event == "[DONE]";
        let chunk: Value = serde_json::from_str(event).unwrap_or_default();
        text += chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default();
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
    }
    assert!(is_done);
    (text, usage)
}

#[tokio::test]
async fn an_answer_that_is_sent_back_is_cached_with_its_prompt() {
    let engine = start(SimConfig { block_size: BlockSize::new(4).unwrap(), ..SimConfig::default() }).await;
    let prompt = "A question: ".to_owned();
    let answer = post(&engine, COMPLETIONS, &json!({"prompt": prompt, "max_tokens": 21})).await.json();
    let next = prompt + answer["choices"][0]["text"].as_str().unwrap() + " and?";
    let computed = 12 + 20;
    assert_eq!(encode_text(&next).len(), 12 + 21 + 5);
    let answer = post(&engine, COMPLETIONS, &json!({"prompt": next, "max_tokens": 1})).await.json();
    assert_eq!(cached_tokens(&answer), computed);
    engine.stop().await;
}

#[tokio::test]
async fn equal_seeds_give_equal_answers_whatever_else_runs() {
    let first = start(SimConfig { seed: 5, ..SimConfig::default() }).await;
    let second = start(SimConfig { seed: 5, decode_tps: 2000, ..SimConfig::default() }).await;
    let other = start(SimConfig { seed: 6, ..SimConfig::default() }).await;
    let prompt = numbers(0..50);
    let expected = complete(&first, &prompt, 20).await["choices"][0]["text"].clone();
    let noise = numbers(60..90);
    let (_, same) = tokio::join!(complete(&second, &noise, 20), complete(&second, &prompt, 20));
    assert_eq!(same["choices"][0]["text"], expected);
    assert_ne!(complete(&other, &prompt, 20).await["choices"][0]["text"], expected);
    for engine in [first, second, other] {
        engine.stop().await;
    }
}

#[tokio::test]
async fn choices_share_one_counted_prompt_and_differ() {
    let engine = start(SimConfig::default()).await;
    let body = json!({"prompt": numbers(0..40), "max_tokens": 5, "n": 3});
    let answer = post(&engine, COMPLETIONS, &body).await.json();
    assert_eq!(answer["usage"]["prompt_tokens"], 40);
    assert_eq!(answer["usage"]["completion_tokens"], 15);
    assert_eq!(cached_tokens(&answer), 0);
    let texts: std::collections::HashSet<_> =
        answer["choices"].as_array().unwrap().iter().map(|choice| choice["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 3);
    let stats = engine.stats();
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (40, 0));
    engine.stop().await;
}

#[tokio::test]
async fn a_list_reports_the_reuse_of_its_last_prompt_only() {
    let engine = start(SimConfig::default()).await;
    complete(&engine, &numbers(0..40), 1).await;
    let body = json!({"prompt": [numbers(0..40), numbers(100..120)], "max_tokens": 2});
    let answer = post(&engine, COMPLETIONS, &body).await.json();
    assert_eq!((answer["usage"]["prompt_tokens"].as_u64(), cached_tokens(&answer)), (Some(60), 0));
    let body = json!({"prompt": [numbers(100..120), numbers(0..40)], "max_tokens": 2});
    let answer = post(&engine, COMPLETIONS, &body).await.json();
    assert_eq!(cached_tokens(&answer), 32);
    let stats = engine.stats();
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (160, 32 + 16 + 32));
    engine.stop().await;
}

#[tokio::test]
async fn salts_do_not_share() {
    let engine = start(SimConfig::default()).await;
    let mut seen = Vec::new();
    for salt in [None, Some("a"), Some("a"), Some("b"), None] {
        let mut body = json!({"prompt": numbers(0..40), "max_tokens": 1});
        if let Some(salt) = salt {
            body["cache_salt"] = salt.into();
        }
        seen.push(cached_tokens(&post(&engine, COMPLETIONS, &body).await.json()));
    }
    assert_eq!(seen, [0, 0, 32, 0, 32]);
    engine.stop().await;
}

#[tokio::test]
async fn details_can_be_switched_off() {
    let engine = start(SimConfig { prompt_tokens_details: false, ..SimConfig::default() }).await;
    let answer = complete(&engine, &numbers(0..40), 1).await;
    assert_eq!(answer["usage"]["prompt_tokens_details"], Value::Null);
    let body = json!({"prompt": "x", "stream": true, "stream_options": {"include_usage": true}});
    let events = post(&engine, COMPLETIONS, &body).await.events();
    let usage: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert!(usage["usage"].get("prompt_tokens_details").is_none(), "{usage}");
    engine.stop().await;
}

#[tokio::test]
async fn limits_are_those_of_the_context() {
    let engine = start(SimConfig { max_model_len: Some(64), ..SimConfig::default() }).await;
    let answer = |prompt: u32, max_tokens: Option<u64>| {
        let mut body = json!({"prompt": numbers(0..prompt)});
        if let Some(max_tokens) = max_tokens {
            body["max_tokens"] = max_tokens.into();
        }
        let engine = &engine;
        async move { post(engine, COMPLETIONS, &body).await }
    };
    assert_eq!(answer(60, Some(4)).await.status, StatusCode::OK);
    assert_eq!(answer(60, Some(5)).await.json()["error"]["param"], "input_tokens");
    assert_eq!(answer(64, None).await.json()["error"]["param"], "input_tokens");
    assert_eq!(answer(4, Some(0)).await.json()["error"]["param"], "max_tokens");
    assert_eq!(answer(63, None).await.json()["usage"]["completion_tokens"], 1);
    assert_eq!(answer(4, None).await.json()["usage"]["completion_tokens"], 16);
    engine.stop().await;
}

/// Real engines refuse it, but for llama.cpp, where it means that there is no bound.
#[tokio::test]
async fn a_negative_bound_is_refused_by_all_but_one() {
    for flavour in [Flavour::Vllm, Flavour::Sglang, Flavour::TrtLlm, Flavour::LlamaCpp] {
        let engine = start(SimConfig { flavour, ..SimConfig::default() }).await;
        let body = json!({"model": "sim", "prompt": "1 2", "max_tokens": -1});
        let status = post(&engine, COMPLETIONS, &body).await.status.as_u16();
        assert_eq!(status, if flavour == Flavour::LlamaCpp { 200 } else { 400 }, "{flavour}");
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_at_once_are_all_counted() {
    let engine = std::sync::Arc::new(start(SimConfig { kv_blocks: 64, ..SimConfig::default() }).await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..300u32 {
        let engine = std::sync::Arc::clone(&engine);
        tasks.spawn(async move {
            let start = (number % 7) * 100;
            let answer = complete(&engine, &numbers(start..start + 90), 9).await;
            (answer["usage"]["prompt_tokens"].as_u64().unwrap(), cached_tokens(&answer))
        });
    }
    let totals = tasks.join_all().await;
    let stats = engine.stats();
    assert_eq!(stats.requests, 300);
    assert_eq!(stats.prompt_tokens, totals.iter().map(|(prompt, _)| prompt).sum::<u64>());
    assert_eq!(stats.reused_tokens, totals.iter().map(|(_, cached)| cached).sum::<u64>());
    assert_eq!((stats.running, stats.waiting, stats.kv_blocks_held), (0, 0, 0));
    assert_eq!(stats.generated_tokens, 2700);
}
