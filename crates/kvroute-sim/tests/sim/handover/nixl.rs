//! vLLM: one leg answers with what the other one needs.

use std::time::Duration;

use hyper::StatusCode;
use kvroute_sim::{Faults, Flavour, SimConfig, SimEngine};
use serde_json::{Value, json};

use super::{ok, pair, prompt, sources, stop};
use crate::http::{COMPLETIONS, cached_tokens, post, until_stats};

async fn engines() -> [SimEngine; 2] {
    pair(Flavour::Vllm, SimConfig::default()).await
}

/// What the answer of a prefill leg says for the other leg.
async fn prefilled(engine: &SimEngine) -> Value {
    let params = json!({"do_remote_decode": true, "do_remote_prefill": false});
    let body = json!({"prompt": prompt(), "max_tokens": 1, "kv_transfer_params": params});
    ok(&post(engine, COMPLETIONS, &body).await)["kv_transfer_params"].take()
}

async fn decoded(engine: &SimEngine, prompt: &[u32], params: &Value) -> Value {
    let body = json!({"prompt": prompt, "max_tokens": 5, "kv_transfer_params": params});
    ok(&post(engine, COMPLETIONS, &body).await)
}

#[tokio::test]
async fn the_decode_engine_computes_nothing_of_a_prompt_that_is_handed_over() {
    let engines = engines().await;
    let params = prefilled(&engines[0]).await;
    assert_eq!(
        (&params["do_remote_prefill"], &params["remote_port"]),
        (&json!(true), &json!(engines[0].transfer_port()))
    );
    assert_eq!(engines[0].stats().kv_blocks_held, 3);
    let answer = decoded(&engines[1], &prompt(), &params).await;
    assert_eq!((cached_tokens(&answer), &answer["usage"]["completion_tokens"]), (0, &json!(5)));
    assert!(answer["kv_transfer_params"].is_null());
    assert_eq!((sources(engines[0].stats()), sources(engines[1].stats())), ((40, 0, 0), (0, 0, 40)));
    // What the prefill engine reused is what usage tells; without that it is all that was not computed.
    let mut params = prefilled(&engines[0]).await;
    assert_eq!(params["remote_prefill_cached_tokens"], 32);
    params.as_object_mut().unwrap().remove("remote_prefill_cached_tokens");
    assert_eq!(cached_tokens(&decoded(&engines[1], &prompt(), &params).await), 40);
    stop(engines).await;
}

#[tokio::test]
async fn what_the_decode_engine_has_is_not_fetched_and_usage_can_be_that_of_the_other_engine() {
    let engines = engines().await;
    decoded(&engines[1], &prompt()[..20], &Value::Null).await;
    let mut params = prefilled(&engines[0]).await;
    params["remote_prefill_cached_tokens"] = json!(7);
    assert_eq!(cached_tokens(&decoded(&engines[1], &prompt(), &params).await), 7);
    assert_eq!(sources(engines[1].stats()), (20, 16, 24));
    stop(engines).await;
}

#[tokio::test]
async fn kv_of_another_prompt_and_kv_that_is_taken_are_not_there() {
    let other: Vec<u32> = (100..140).collect();
    for recomputes_lost_kv in [false, true] {
        let engines = pair(Flavour::Vllm, SimConfig { recomputes_lost_kv, ..SimConfig::default() }).await;
        let params = prefilled(&engines[0]).await;
        for prompt in [&other, &prompt()] {
            let body = json!({"prompt": prompt, "max_tokens": 5, "kv_transfer_params": params});
            let status = post(&engines[1], COMPLETIONS, &body).await.status;
            assert_eq!(status == StatusCode::OK, recomputes_lost_kv, "{status}");
        }
        let computed = if recomputes_lost_kv { 80 } else { 0 };
        assert_eq!(sources(engines[1].stats()), (computed, 0, 0));
        stop(engines).await;
    }
}

#[tokio::test]
async fn a_transfer_that_stops_half_way_leaves_the_rest_to_be_computed() {
    let engines = engines().await;
    engines[1].set_faults(Faults { transfer_percent: Some(50), ..Faults::default() }).await.unwrap();
    let mut params = prefilled(&engines[0]).await;
    params.as_object_mut().unwrap().remove("remote_prefill_cached_tokens");
    assert_eq!(cached_tokens(&decoded(&engines[1], &prompt(), &params).await), 20);
    assert_eq!(sources(engines[1].stats()), (20, 0, 20));
    stop(engines).await;
}

#[tokio::test]
async fn kv_that_nobody_fetches_is_given_up_and_counted() {
    let engines = pair(
        Flavour::Vllm,
        SimConfig { lease: Duration::from_millis(1), recomputes_lost_kv: true, ..SimConfig::default() },
    )
    .await;
    let params = prefilled(&engines[0]).await;
    until_stats(&engines[0], "expired", |stats| stats.expired_leases == 1 && stats.kv_blocks_held == 0).await;
    decoded(&engines[1], &prompt(), &params).await;
    assert_eq!(sources(engines[1].stats()), (40, 0, 0));
    engines[0].set_faults(Faults { expire_leases: true, ..Faults::default() }).await.unwrap();
    prefilled(&engines[0]).await;
    until_stats(&engines[0], "expired again", |stats| stats.expired_leases == 2).await;
    stop(engines).await;
}

#[tokio::test]
async fn legs_fail_when_they_are_told_to() {
    let engines = engines().await;
    let params = prefilled(&engines[0]).await;
    engines[0].set_faults(Faults { fail_prefill: true, ..Faults::default() }).await.unwrap();
    engines[1].set_faults(Faults { fail_decode: true, ..Faults::default() }).await.unwrap();
    let leg = json!({"do_remote_decode": true});
    for (engine, params) in [(&engines[0], &leg), (&engines[1], &params)] {
        let body = json!({"prompt": prompt(), "max_tokens": 1, "kv_transfer_params": params});
        let answer = post(engine, COMPLETIONS, &body).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (StatusCode::INTERNAL_SERVER_ERROR, &json!(500))
        );
    }
    engines[1].set_faults(Faults::default()).await.unwrap();
    decoded(&engines[1], &prompt(), &params).await;
    assert_eq!(sources(engines[1].stats()), (0, 0, 40));
    stop(engines).await;
}

#[tokio::test]
async fn an_engine_for_whole_requests_ignores_the_parameters() {
    let engine = crate::http::start(SimConfig::default()).await;
    let body = json!({"prompt": prompt(), "max_tokens": 2, "kv_transfer_params": {"do_remote_decode": true}});
    assert!(ok(&post(&engine, COMPLETIONS, &body).await)["kv_transfer_params"].is_null());
    assert_eq!((engine.transfer_port(), engine.stats().kv_blocks_held), (None, 0));
    engine.stop().await;
}
