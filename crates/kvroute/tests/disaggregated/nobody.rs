//! Nobody computes the prompt, or nobody takes it over.

use std::time::Duration;

use kvroute_router::PoolConfig;
use kvroute_router::config::OnNoPrefill;
use kvroute_sim::{Faults, Flavour};
use serde_json::json;

use super::split::{CHAT, COMPLETIONS, FLAVOURS, Split, chat, completion};

fn strict(pool: &mut PoolConfig) {
    (pool.on_no_prefill, pool.queue.timeout) = (OnNoPrefill::Strict, Duration::from_millis(200));
}

async fn without_prefill_workers(flavour: Flavour, pool: impl FnOnce(&mut PoolConfig)) -> Split {
    let mut split = Split::start_with(flavour, |_| {}, pool).await;
    let decodes = split.fleet.engines.split_off(2);
    for engine in std::mem::replace(&mut split.fleet.engines, decodes) {
        engine.stop().await;
    }
    let is_gone = |list: serde_json::Value| {
        let states = list.as_array().unwrap().iter().filter(|worker| worker["role"] == "prefill");
        states.into_iter().all(|worker| worker["state"] != "ready")
    };
    let workers = split.fleet.admin("/api/workers");
    split.fleet.client.until(&workers, |answer| is_gone(answer.json())).await;
    split
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_prefill_worker_the_prompt_is_computed_where_it_is_answered_and_that_is_counted() {
    let split = without_prefill_workers(Flavour::Vllm, |_| {}).await;
    let answer = split.ask(CHAT, &chat(1, &json!({}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let books = split.books().await;
    assert_eq!(books.attempts("aggregated", "completed"), 1);
    assert_eq!(books.fallbacks("unhealthy") + books.fallbacks("no_worker") + books.fallbacks("failed"), 1);
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_strict_pool_waits_for_a_prefill_worker_and_then_refuses() {
    let split = without_prefill_workers(Flavour::Vllm, strict).await;
    let answer = split.ask(CHAT, &chat(1, &json!({}))).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("no worker"), "{}", answer.text());
    assert_eq!(split.fleet.client.get(&split.fleet.admin("/metrics")).await.status, 200);
    let books = split.books().await;
    assert_eq!((books.requests("rejected"), books.fallbacks("unhealthy")), (1, 0));
    assert_eq!(split.fleet.client.get(&split.fleet.data("/ready")).await.status, 503);
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefill_that_fails_does_not_fail_its_request() {
    for flavour in [Flavour::Vllm, Flavour::TrtLlm] {
        let split = Split::start(flavour).await;
        Split::all_behave(split.prefills(), Faults { fail_prefill: true, ..Faults::default() }).await;
        let answer = split.ask(COMPLETIONS, &completion(1, &json!({}))).await;
        assert_eq!(answer.status, 200, "{flavour}: {}", answer.text());
        let books = split.books().await;
        assert_eq!(books.fallbacks("failed"), 1, "{flavour}");
        assert_eq!(books.attempts("prefill", "failed"), 2, "{flavour}: another one is asked");
        assert_eq!(books.attempts("aggregated", "completed"), 1, "{flavour}");
        split.fleet.stop().await;
    }
}

/// A decode worker of this engine serves nobody alone, so there is nothing to fall back to; and it must not wait for a
/// partner that has failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_prefill_calls_off_the_worker_that_waits_for_it() {
    let split = Split::start(Flavour::Sglang).await;
    Split::all_behave(split.prefills(), Faults { fail_prefill: true, ..Faults::default() }).await;
    let answer = split.ask(COMPLETIONS, &completion(1, &json!({"stream": true}))).await;
    assert_eq!(answer.status.as_u16() / 100, 5, "{}", answer.text());
    for engine in split.decodes() {
        let stats = format!("{}/stats", engine.url());
        split.fleet.client.until(&stats, |answer| answer.json()["running"] == 0).await;
    }
    let books = split.books().await;
    assert_eq!((books.attempts("prefill", "failed"), books.attempts("decode", "cancelled")), (2, 2));
    assert_eq!(books.requests("failed"), 1);
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_engine_hands_over_is_served_whole() {
    let split = Split::start(Flavour::Vllm).await;
    let list = json!({"prompt": [[5, 6, 7], [8, 9, 10]]});
    for members in [json!({"n": 2}), list, json!({"prompt_logprobs": 1})] {
        let answer = split.ask(COMPLETIONS, &completion(1, &members)).await;
        assert_eq!(answer.status, 200, "{members}: {}", answer.text());
    }
    let books = split.books().await;
    assert_eq!((books.fallbacks("unsupported"), books.attempts("aggregated", "completed")), (3, 3));
    assert_eq!(books.attempts("prefill", "completed"), 0);
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_whose_workers_only_hand_over_was_never_ready() {
    for flavour in FLAVOURS {
        let split = Split::start(flavour).await;
        split.fleet.client.until(&split.fleet.data("/ready"), |answer| answer.status == 200).await;
        split.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_was_computed_for_whom_nobody_of_its_kind_was_left_to_answer() {
    let mut split = Split::start_mixed([Flavour::Vllm, Flavour::Sglang]).await;
    let gone = split.fleet.engines.remove(2);
    let name = gone.address().to_string();
    gone.stop().await;
    let is_gone = |list: serde_json::Value| {
        let mut workers = list.as_array().unwrap().clone().into_iter();
        workers.any(|worker| worker["id"] == *name && worker["state"] != "ready")
    };
    let workers = split.fleet.admin("/api/workers");
    split.fleet.client.until(&workers, |answer| is_gone(answer.json())).await;
    for seed in 0..6 {
        let answer = split.ask(COMPLETIONS, &completion(seed, &json!({}))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(split.books().await.attempts("decode", "completed"), 6);
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_answers_of_an_engine_that_only_hands_over_waited_for_ever() {
    let split = Split::start(Flavour::Sglang).await;
    let answer = split.ask(COMPLETIONS, &completion(1, &json!({"n": 2}))).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (400, &json!("unservable")));
    assert!(answer.text().contains("aggregated"), "{}", answer.text());
    assert_eq!(split.books().await.requests("rejected"), 1);
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_its_prefill_refuses_is_refused_once() {
    for flavour in FLAVOURS {
        let split = Split::start(flavour).await;
        let answer = split.ask(COMPLETIONS, &completion(1, &json!({"max_tokens": 100_000_000}))).await;
        let books = split.books().await;
        if answer.status == 400 {
            assert_eq!(books.requests("rejected"), 1, "{flavour}");
        }
        assert_eq!(books.fallbacks("failed"), 0, "{flavour}: {}", answer.text());
        split.fleet.stop().await;
    }
}
