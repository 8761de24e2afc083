//! Prompts that are computed for nobody, and engines that wait for nobody.

use std::time::Duration;

use kvroute_sim::{Faults, Flavour, SimEngine};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::split::{COMPLETIONS, FLAVOURS, PROMPT, Split, completion};

/// A client that waits for its answer; dropped, it leaves.
fn client(split: &Split, body: Value) -> JoinSet<()> {
    let (client, url) = (kvroute_testkit::Client::default(), split.fleet.data(COMPLETIONS));
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { drop(client.post(&url, &body).await) });
    waiting
}

async fn until_idle(split: &Split, engines: &[SimEngine]) {
    for engine in engines {
        let is_idle = |stats: Value| stats["running"] == 0 && stats["waiting"] == 0;
        split.fleet.client.until(&format!("{}/stats", engine.url()), |answer| is_idle(answer.json())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_while_its_prompt_is_computed_leaves_nothing_behind() {
    for flavour in FLAVOURS {
        let slow = |engine: &mut kvroute_sim::SimConfig| engine.prefill_tps = 1;
        let split = Split::start_with(flavour, slow, |_| {}).await;
        let waiting = client(&split, completion(1, &json!({"stream": true})));
        let started = "dynamo_component_router_requests_started_total";
        let is_under_way = |text: String| {
            kvroute_testkit::Exposition::parse(&text).sum(started, &[]).is_some_and(|count| count > 0.0)
        };
        split.fleet.client.until(&split.fleet.admin("/metrics"), |answer| is_under_way(answer.text())).await;
        drop(waiting);
        let books = split.books().await;
        assert_eq!(books.requests("cancelled"), 1, "{flavour}");
        assert_eq!(books.attempts("prefill", "cancelled"), 1, "{flavour}");
        until_idle(&split, &split.fleet.engines).await;
        split.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_that_nobody_takes_over_is_counted() {
    for flavour in [Flavour::Vllm, Flavour::TrtLlm] {
        let split = Split::start(flavour).await;
        Split::all_behave(split.decodes(), Faults { hang: true, ..Faults::default() }).await;
        let waiting = client(&split, completion(1, &json!({"stream": true})));
        let prefilled = [("phase", "prefill"), ("outcome", "completed")];
        let is_computed = |text: String| {
            let scrape = kvroute_testkit::Exposition::parse(&text);
            scrape.sum("kvroute_attempts_total", &prefilled).is_some_and(|count| count > 0.0)
        };
        split.fleet.client.until(&split.fleet.admin("/metrics"), |answer| is_computed(answer.text())).await;
        drop(waiting);
        let books = split.books().await;
        assert_eq!(books.stranded(), PROMPT as u64, "{flavour}");
        assert_eq!((books.requests("cancelled"), books.attempts("decode", "cancelled")), (1, 1), "{flavour}");
        split.fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_fails_is_the_decode_engines_own_matter() {
    let split = Split::start(Flavour::Vllm).await;
    let failing = Faults { transfer_percent: Some(0), ..Faults::default() };
    Split::all_behave(split.decodes(), failing).await;
    let answer = split.ask(COMPLETIONS, &completion(1, &json!({}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let books = split.books().await;
    assert_eq!(books.reused("decode"), 0);
    assert_eq!(books.reports("decode", "excluded"), 1);
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decode_worker_that_cannot_get_the_kv_was_the_end_of_its_request() {
    let split = Split::start(Flavour::Vllm).await;
    Split::all_behave(split.decodes(), Faults { fail_decode: true, ..Faults::default() }).await;
    let answer = split.ask(COMPLETIONS, &completion(1, &json!({}))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let books = split.books().await;
    assert_eq!((books.fallbacks("failed"), books.stranded()), (1, 2 * PROMPT as u64), "both were tried");
    assert_eq!((books.attempts("decode", "failed"), books.attempts("aggregated", "completed")), (2, 1));
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decode_worker_that_had_just_failed_a_request_was_given_all_of_it() {
    let split = Split::start(Flavour::Vllm).await;
    let broken = Faults { refuse_status: Some(500), ..Faults::default() };
    split.decodes()[0].set_faults(broken).await.unwrap();
    for seed in 0..6 {
        let answer = split.ask(COMPLETIONS, &completion(seed, &json!({}))).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let books = split.books().await;
    assert!(books.attempts("decode", "failed") > 0, "the broken one was asked");
    assert_eq!((books.requests("completed"), books.fallbacks("failed")), (6, 0));
    split.fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decode_worker_that_breaks_is_replaced_by_another() {
    for flavour in FLAVOURS {
        let mut split = Split::start(flavour).await;
        let gone = split.fleet.engines.pop().unwrap();
        gone.stop().await;
        for seed in 0..6 {
            let answer = split.ask(COMPLETIONS, &completion(seed, &json!({}))).await;
            assert_eq!(answer.status, 200, "{flavour}: {}", answer.text());
        }
        let books = split.books().await;
        assert_eq!((books.requests("completed"), books.requests("failed")), (6, 0), "{flavour}");
        tokio::time::timeout(Duration::from_secs(30), until_idle(&split, &split.fleet.engines))
            .await
            .unwrap();
        split.fleet.stop().await;
    }
}
