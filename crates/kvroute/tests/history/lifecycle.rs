//! Looked up before it is taught, taught once it is complete, observed once.

use http_body_util::BodyExt;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{CapturedLog, Fleet, PlainAnswer, PlainWorker, server_config};
use serde_json::{Value, json};

use super::asking::{
    BLOCK, COMPLETIONS, Observed, ask, body, engine, entries, fleet, observed, prompt, send, with_history,
};

/// Begins a stream and waits for its first piece.
async fn begin(fleet: &Fleet, prompt: &[u32], tokens: u64) -> http::Response<hyper::body::Incoming> {
    let mut body = body(prompt);
    (body["stream"], body["max_tokens"]) = (true.into(), tokens.into());
    let mut answer = fleet.client.open(&fleet.data(COMPLETIONS), &body).await;
    assert_eq!(answer.status(), 200);
    answer.frame().await.unwrap().unwrap();
    answer
}

fn slow() -> SimConfig {
    SimConfig { decode_tps: 20, ..engine() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_does_not_find_itself_and_finds_what_was_complete_before_it() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let long = prompt(1, 5 * BLOCK + 3);
    assert_eq!(ask(&fleet, &long[..3 * BLOCK as usize + 1]).await, 0);
    assert_eq!(ask(&fleet, &long).await, 3 * BLOCK, "whole blocks from the start on");
    assert_eq!(ask(&fleet, &long).await, 5 * BLOCK);
    assert_eq!(ask(&fleet, &prompt(2, 40)).await, 0);
    let input = 49 + 83 + 83 + 40;
    let expected = Observed { complete: 4, incomplete: 0, input, history: 8 * BLOCK };
    assert_eq!(observed(&fleet).await, expected);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_what_was_ever_computed_and_not_what_is_still_cached() {
    let fleet = fleet(vec![SimConfig { kv_blocks: 8, ..engine() }], "kv", |_| {}).await;
    ask(&fleet, &prompt(1, 6 * BLOCK)).await;
    ask(&fleet, &prompt(2, 7 * BLOCK)).await;
    assert_eq!(ask(&fleet, &prompt(1, 6 * BLOCK)).await, 6 * BLOCK, "although the engine has evicted it");
    let scrape = fleet.at_rest().await;
    let lost = |stage, reason| {
        scrape.count("kvroute_router_reuse_lost_tokens_total", &[("stage", stage), ("reason", reason)])
    };
    assert_eq!(lost("new", "unseen"), 13 * BLOCK);
    assert!(lost("residency", "evicted") >= 5 * BLOCK, "{scrape:?}");
    assert_eq!(scrape.sum("kvroute_router_reuse_lost_tokens_total", &[("stage", "unavailable")]), Some(0.0));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_equal_prompts_at_once_are_both_new() {
    let fleet = fleet(vec![slow(), slow()], "kv", |_| {}).await;
    let prompt = prompt(1, 4 * BLOCK);
    let streams = [begin(&fleet, &prompt, 10).await, begin(&fleet, &prompt, 10).await];
    for stream in streams {
        stream.into_body().collect().await.unwrap();
    }
    assert_eq!(observed(&fleet).await, Observed { complete: 2, incomplete: 0, input: 8 * BLOCK, history: 0 });
    assert_eq!(ask(&fleet, &prompt).await, 4 * BLOCK);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_before_the_end_teaches_nothing() {
    let fleet = fleet(vec![slow()], "kv", |_| {}).await;
    drop(begin(&fleet, &prompt(1, 4 * BLOCK), 1000).await);
    let expected = Observed { complete: 0, incomplete: 1, input: 4 * BLOCK, history: 0 };
    assert_eq!(observed(&fleet).await, expected);
    assert_eq!(entries(&fleet).await, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_teaches_nothing() {
    let faults = Faults { break_after_chunks: Some(2), ..Faults::default() };
    let fleet = fleet(vec![SimConfig { faults, ..engine() }], "kv", |_| {}).await;
    let mut stream = body(&prompt(1, 4 * BLOCK));
    (stream["stream"], stream["max_tokens"]) = (true.into(), 20.into());
    let answer = fleet.client.post(&fleet.data(COMPLETIONS), &stream).await;
    assert!(answer.text().contains("error"), "{}", answer.text());
    assert_eq!(observed(&fleet).await.incomplete, 1);
    assert_eq!(entries(&fleet).await, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_of_a_request_is_observed_and_only_the_one_that_succeeds_teaches() {
    let dies = PlainWorker::start("sim", PlainAnswer::HangUp).await;
    let fleet = Fleet::start_with(vec![engine()], |urls| {
        let mut config = server_config(&[urls[0].clone(), dies.url()], "round-robin");
        with_history(&mut config.router.pools[0]);
        config.router.pools[0].observe = true;
        config
    })
    .await;
    let are_ready = |workers: Value| (0..2).all(|worker| workers[worker]["state"] == "ready");
    fleet.client.until(&fleet.admin("/api/workers"), |answer| are_ready(answer.json())).await;
    for number in 1..=2 {
        send(&fleet, &body(&prompt(number, 4 * BLOCK))).await;
    }
    let retries = fleet.at_rest().await.count("kvroute_retries_total", &[]);
    assert!(retries > 0, "the worker that dies was not asked");
    let input = (2 + retries) * 4 * BLOCK;
    let expected = Observed { complete: 2, incomplete: retries, input, history: 0 };
    assert_eq!(observed(&fleet).await, expected);
    assert_eq!(entries(&fleet).await, 8);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_prompts_teaches_each_of_them_and_is_looked_up_prompt_by_prompt() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    ask(&fleet, &prompt(1, 2 * BLOCK)).await;
    let list = json!({"model": "sim", "prompt": [prompt(1, 3 * BLOCK), prompt(2, 3 * BLOCK)], "max_tokens": 1, "n": 2});
    send(&fleet, &list).await;
    assert_eq!(observed(&fleet).await.history, 2 * BLOCK);
    assert_eq!(ask(&fleet, &prompt(2, 3 * BLOCK)).await, 3 * BLOCK);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn salts_do_not_share_what_was_computed() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let mut salted = body(&prompt(1, 4 * BLOCK));
    salted["cache_salt"] = "tenant".into();
    send(&fleet, &salted).await;
    assert_eq!(ask(&fleet, &prompt(1, 4 * BLOCK)).await, 0);
    send(&fleet, &salted).await;
    assert_eq!(observed(&fleet).await.history, 4 * BLOCK);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_asks_where_a_request_would_go_leaves_no_trace() {
    let fleet = fleet(vec![engine()], "kv", |_| {}).await;
    let question = json!({"endpoint": COMPLETIONS, "body": body(&prompt(1, 4 * BLOCK))});
    let answer = fleet.client.post(&fleet.admin("/api/route"), &question).await;
    assert_eq!(answer.status, 200);
    assert_eq!(observed(&fleet).await, Observed::default());
    assert_eq!(ask(&fleet, &prompt(1, 4 * BLOCK)).await, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_index_is_asked_there_is_no_history_and_the_start_says_so() {
    let log = CapturedLog::start();
    let fleet = fleet(vec![engine()], "least-loaded", |_| {}).await;
    send(&fleet, &body(&prompt(1, 4 * BLOCK))).await;
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.sum("dynamo_component_router_cache_loss_history_capacity_blocks", &[]), None);
    let told = log.entries(|entry| entry.message.contains("pool.observe"));
    assert_eq!(told.len(), 1, "{told:?}");
    fleet.stop().await;
}

/// One choice of two stopped as it should; the answer of the other one was none.
async fn one_of_two_fails(other: Value) {
    let mut choices = vec![json!({"index": 0, "text": "x", "finish_reason": "stop"})];
    choices.extend(Some(other).filter(|other| !other.is_null()));
    let answer =
        json!({"id": "x", "choices": choices, "usage": {"prompt_tokens": 64, "completion_tokens": 2}});
    let worker = PlainWorker::start("sim", PlainAnswer::Body(answer)).await;
    let fleet = Fleet::start_with(Vec::new(), |_| {
        let mut config = server_config(&[worker.url()], "kv");
        with_history(&mut config.router.pools[0]);
        config
    })
    .await;
    fleet.client.until(&fleet.data("/ready"), |answer| answer.status == 200).await;
    let mut request = body(&prompt(1, 4 * BLOCK));
    request["n"] = 2.into();
    send(&fleet, &request).await;
    let expected = Observed { complete: 0, incomplete: 1, input: 4 * BLOCK, history: 0 };
    assert_eq!(observed(&fleet).await, expected);
    assert_eq!(entries(&fleet).await, 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_choice_that_fails_after_another_one_stopped_keeps_the_whole_request_from_being_learned() {
    one_of_two_fails(json!({"index": 1, "text": "x", "finish_reason": "abort"})).await;
    one_of_two_fails(json!({"index": 1, "text": "x", "finish_reason": null})).await;
    one_of_two_fails(Value::Null).await;
}
