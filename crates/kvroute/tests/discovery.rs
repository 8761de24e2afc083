//! With nothing but worker addresses the router finds model, block size, event sockets and a tokenizer.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use kvroute_core::BlockSize;
use kvroute_router::config::{CountMode, IndexSource, TokenizerSource};
use kvroute_sim::{EventEndpoint, SimConfig};
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};

const F0: &str = "dynamo_component_router_input_sequence_tokens_sum";
const F2: &str = "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total";
const F3: &str = "dynamo_component_router_kv_selected_cached_prefix_tokens_total";
const F4: &str = "dynamo_component_router_kv_worker_reused_tokens_total";

fn chat(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 4})
}

fn long_text() -> String {
    "tell me everything that you know about the weather ".repeat(20)
}

/// Waits until the index has so many blocks of one worker.
async fn until_some_worker_holds(fleet: &Fleet, blocks: u64) {
    let holds = |worker: &Value| worker["ranks"][0]["blocks"].as_u64() >= Some(blocks);
    let workers = fleet.admin("/api/workers");
    fleet.client.until(&workers, |answer| answer.json().as_array().unwrap().iter().any(holds)).await;
}

fn engine(model: &str) -> SimConfig {
    SimConfig { model: model.to_owned(), block_size: BlockSize::new(8).unwrap(), ..SimConfig::default() }
}

#[tokio::test]
async fn an_address_is_enough_for_the_whole_funnel() {
    let by_address_only = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].tokenizer = TokenizerSource::Engine;
        config
    };
    let fleet = Fleet::start_with(vec![engine("found"), engine("found")], by_address_only).await;
    let models = fleet.client.get(&fleet.data("/v1/models")).await.json();
    assert_eq!(models["data"][0]["id"], "found", "{models}");
    let workers = fleet.client.get(&fleet.admin("/api/workers")).await.json();
    let rank =
        json!({"dp_rank": 0, "source_state": "exact", "source_reason": "", "block_size": 8, "blocks": 0});
    for worker in workers.as_array().unwrap() {
        assert_eq!(
            (&worker["model"], &worker["state"], &worker["ranks"]),
            (&json!("found"), &json!("ready"), &json!([rank]))
        );
    }

    let first = fleet.client.post(&fleet.data("/v1/chat/completions"), &chat("found", &long_text())).await;
    let prompt = first.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    until_some_worker_holds(&fleet, prompt / 8).await;
    let second = fleet.client.post(&fleet.data("/v1/chat/completions"), &chat("found", &long_text())).await;
    let reused = second.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();

    let scrape = fleet.at_rest().await;
    assert!(reused > 0 && reused == (prompt - 1) / 8 * 8, "{reused} of {prompt}");
    assert_eq!(scrape.count(F0, &[]), 2 * prompt);
    assert_eq!((scrape.count(F2, &[]), scrape.count(F3, &[])), (prompt / 8 * 8, prompt / 8 * 8));
    assert_eq!(scrape.count(F4, &[]), reused);
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "reported")]), 2);
    fleet.stop().await;
}

#[tokio::test]
async fn workers_of_two_models_become_two_pools_and_an_alias_reaches_its_own() {
    let with_alias = |urls: &[String]| {
        let mut config = server_config(&urls[..1], "round-robin");
        config.router.pools[0].aliases = vec!["nick".to_owned()];
        let other = server_config(&urls[1..], "least-loaded");
        config.router.pools.extend(other.router.pools);
        config
    };
    let fleet = Fleet::start_with(vec![engine("one"), engine("two")], with_alias).await;
    let url = fleet.data("/v1/chat/completions");
    for (asked, answers) in [("one", "one"), ("nick", "one"), ("two", "two")] {
        let answer = fleet.client.post(&url, &chat(asked, "hello")).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["model"]),
            (200, &json!(answers)),
            "{}",
            answer.text()
        );
    }
    let nameless = json!({"messages": [{"role": "user", "content": "hello"}]});
    let answer = fleet.client.post(&url, &nameless).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (400, &json!("model_missing")));
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("model", "one"), ("outcome", "completed")]), 2);
    assert_eq!(scrape.count("kvroute_requests_total", &[("model", "two"), ("outcome", "completed")]), 1);
    assert_eq!(scrape.sum("kvroute_requests_total", &[("model", "nick")]), None);
    fleet.stop().await;
}

#[tokio::test]
async fn without_an_index_view_the_cached_stages_are_absent_and_reuse_is_still_counted() {
    let observed = |observe: bool, count: CountMode| {
        move |urls: &[String]| {
            let mut config = server_config(urls, "round-robin");
            config.router.pools[0].observe = observe;
            config.router.pools[0].count = count;
            config
        }
    };
    let cases = [(false, CountMode::Exact), (true, CountMode::Exact), (false, CountMode::Off)];
    for (observe, count) in cases {
        let fleet = Fleet::start_with(vec![engine("sim")], observed(observe, count)).await;
        for _ in 0..2 {
            fleet.client.post(&fleet.data("/v1/chat/completions"), &chat("sim", &long_text())).await;
        }
        let scrape = fleet.at_rest().await;
        assert_eq!(scrape.sum(F2, &[]).is_some(), observe, "F2 with observe = {observe}");
        assert_eq!(scrape.sum(F3, &[]).is_some(), observe, "F3 with observe = {observe}");
        assert_eq!(scrape.sum(F0, &[]).is_some(), count == CountMode::Exact, "F0 with {count:?}");
        assert_eq!(scrape.count(F4, &[]), fleet.engines[0].stats().reused_tokens);
        assert!(scrape.count(F4, &[]) > 0);
        let outcome = if count == CountMode::Exact { "reported" } else { "unchecked" };
        assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", outcome)]), 2);
        fleet.stop().await;
    }
}

/// Without events the router remembers what it placed, and says how it could know more.
#[tokio::test]
async fn an_engine_without_events_is_remembered() {
    let silent =
        || SimConfig { kv_events: EventEndpoint::None, kv_replay: EventEndpoint::None, ..engine("sim") };
    let fleet = Fleet::start(vec![silent(), silent()], "kv").await;
    let url = fleet.data("/v1/chat/completions");
    let prompt = fleet.client.post(&url, &chat("sim", &long_text())).await.json()["usage"]["prompt_tokens"]
        .as_u64()
        .unwrap();
    fleet.client.post(&url, &chat("sim", &long_text())).await;
    let workers = fleet.client.get(&fleet.admin("/api/workers")).await.json();
    for worker in workers.as_array().unwrap() {
        let rank = &worker["ranks"][0];
        assert_eq!(rank["source_state"], "remembered");
        assert!(rank["source_reason"].as_str().unwrap().contains("--kv-events-config"), "{rank}");
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count(F3, &[]), prompt / 8 * 8);
    let reusable = (prompt - 1) / 8 * 8;
    assert_eq!(scrape.count(F4, &[]), reusable);
    fleet.stop().await;
}

/// Whoever wants events only gets no estimate in their place.
#[tokio::test]
async fn an_engine_without_events_is_unknown_where_only_reports_count() {
    let silent =
        SimConfig { kv_events: EventEndpoint::None, kv_replay: EventEndpoint::None, ..engine("sim") };
    let reported_only = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].index.source = IndexSource::Reported;
        config
    };
    let fleet = Fleet::start_with(vec![silent], reported_only).await;
    let answer = fleet.client.post(&fleet.data("/v1/chat/completions"), &chat("sim", "hello")).await;
    assert_eq!(answer.status, 200);
    let workers = fleet.client.get(&fleet.admin("/api/workers")).await.json();
    let rank = &workers[0]["ranks"][0];
    assert_eq!(rank["source_state"], Value::Null);
    assert!(rank["source_reason"].as_str().unwrap().contains("--kv-events-config"), "{rank}");
    assert_eq!(fleet.at_rest().await.sum(F3, &[]), None);
    fleet.stop().await;
}

/// Round-robin sends the second request away from the cache that it has seen: best is not selected.
#[tokio::test]
async fn what_a_decision_gives_up_stands_between_the_best_and_the_selected_prefix() {
    let observed = |urls: &[String]| {
        let mut config = server_config(urls, "round-robin");
        config.router.pools[0].observe = true;
        config
    };
    let fleet = Fleet::start_with(vec![engine("sim"), engine("sim")], observed).await;
    let url = fleet.data("/v1/chat/completions");
    let first = fleet.client.post(&url, &chat("sim", &long_text())).await;
    let prompt = first.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    until_some_worker_holds(&fleet, prompt / 8).await;
    fleet.client.post(&url, &chat("sim", &long_text())).await;
    let scrape = fleet.at_rest().await;
    let stages = [F0, F2, F3, F4].map(|stage| scrape.count(stage, &[]));
    assert_eq!(stages, [2 * prompt, prompt / 8 * 8, 0, 0]);
    fleet.stop().await;
}

/// A worker that cannot be picked still holds its cache: known anywhere, but not eligible.
#[tokio::test]
async fn a_prefix_on_a_worker_that_is_away_counts_anywhere_and_is_not_the_best_eligible() {
    let mut fleet = Fleet::start(vec![engine("sim"), engine("sim")], "kv").await;
    let url = fleet.data("/v1/chat/completions");
    let first = fleet.client.post(&url, &chat("sim", &long_text())).await;
    let prompt = first.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    until_some_worker_holds(&fleet, prompt / 8).await;
    let holder = fleet.engines.iter().position(|engine| engine.stats().requests == 1).unwrap();
    fleet.engines.remove(holder).stop().await;
    let is_away = |answer: &kvroute_testkit::Answer| answer.text().contains("unhealthy");
    fleet.client.until(&fleet.admin("/api/workers"), is_away).await;
    assert_eq!(fleet.client.post(&url, &chat("sim", &long_text())).await.status, 200);
    let scrape = fleet.at_rest().await;
    let anywhere = scrape.count("kvroute_router_best_cached_prefix_tokens_total", &[]);
    assert_eq!((anywhere, scrape.count(F2, &[]), scrape.count(F3, &[])), (prompt / 8 * 8, 0, 0));
    fleet.stop().await;
}
