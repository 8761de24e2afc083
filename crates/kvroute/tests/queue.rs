//! Requests that find every worker busy, or none at all.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests fail as tests do; each test awaits the requests that it sends"
)]

mod queue {
    mod adapters;
    mod drain;
    mod first_worker;
    mod never;
    mod scripted;
    mod sessions;
}

use std::time::Duration;

use kvroute_core::Tokens;
use kvroute_router::config::{BusyThreshold, QueueConfig};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Client, Fleet, engine, server_config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PENDING: &str = "dynamo_frontend_router_queue_pending_requests";
const REFUSED: &str = "kvroute_queue_refused_total";

/// A worker that needs long for a prompt, and counts as busy with a single one.
fn slow() -> SimConfig {
    SimConfig { prefill_tps: 1500, ..SimConfig::default() }
}

fn config(urls: &[String], queue: QueueConfig) -> ServeConfig {
    let mut config = server_config(urls, "kv");
    config.router.pools[0].queue = QueueConfig { threshold: BusyThreshold::Tokens(Tokens::ZERO), ..queue };
    config
}

async fn fleet(workers: usize, queue: QueueConfig) -> Fleet {
    Fleet::start_with(vec![slow(); workers], |urls| config(urls, queue)).await
}

/// About 1,500 tokens that no other number shares, so a second of work.
fn question(number: usize) -> Value {
    let text = format!("{number} is the number of this question ").repeat(150);
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 2, "stream": true})
}

fn ask(fleet: &Fleet, number: usize, headers: &[(&'static str, &'static str)]) -> JoinHandle<Answer> {
    let (client, url) = (fleet.client.clone(), fleet.data("/v1/chat/completions"));
    let headers = headers.to_vec();
    tokio::spawn(async move { client.post_with(&url, &headers, &question(number)).await })
}

/// Waits until so many prompts were given to engines.
async fn until_started(fleet: &Fleet, started: u64) {
    let line = format!("requests_started_total {started}\n");
    fleet.client.until(&fleet.admin("/metrics"), |answer| answer.text().contains(&line)).await;
}

/// Waits until so many requests wait.
async fn until_pending(fleet: &Fleet, waiting: u64) {
    until_pending_for(fleet, "sim", waiting).await;
}

async fn until_pending_for(fleet: &Fleet, model: &str, waiting: u64) {
    let line = format!("{PENDING}{{model=\"{model}\",worker_type=\"decode\"}} {waiting}\n");
    fleet.client.until(&fleet.admin("/metrics"), |answer| answer.text().contains(&line)).await;
}

async fn served(fleet: &Fleet) -> u64 {
    let mut requests = 0;
    for engine in &fleet.engines {
        let stats = fleet.client.get(&format!("{}/stats", engine.url())).await.json();
        requests += stats["requests"].as_u64().unwrap();
    }
    requests
}

#[tokio::test]
async fn requests_wait_while_every_worker_is_busy_and_each_is_served() {
    let fleet = fleet(2, QueueConfig::default()).await;
    let answers: Vec<_> = (0..5).map(|number| ask(&fleet, number, &[])).collect();
    until_pending(&fleet, 3).await;
    for answer in answers {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_queue_wait_seconds_count", &[]), 3);
    assert_eq!((scrape.sum(PENDING, &[]), scrape.count(REFUSED, &[])), (Some(0.0), 0));
    assert_eq!(served(&fleet).await, 5);
    fleet.stop().await;
}

#[tokio::test]
async fn the_higher_priority_goes_first() {
    let fleet = fleet(1, QueueConfig::default()).await;
    let first = ask(&fleet, 0, &[]);
    until_started(&fleet, 1).await;
    let low = ask(&fleet, 1, &[]);
    until_pending(&fleet, 1).await;
    let high = ask(&fleet, 2, &[("x-kvroute-priority", "5")]);
    let (low, high) = (tokio::spawn(ended(low)), tokio::spawn(ended(high)));
    assert!(high.await.unwrap() < low.await.unwrap());
    first.await.unwrap();
    fleet.stop().await;
}

async fn ended(answer: JoinHandle<Answer>) -> std::time::SystemTime {
    assert_eq!(answer.await.unwrap().status, 200);
    std::time::SystemTime::now()
}

#[tokio::test]
async fn a_full_queue_refuses_with_the_time_to_come_back() {
    let fleet = fleet(1, QueueConfig { limit: 1, ..QueueConfig::default() }).await;
    let served = [ask(&fleet, 0, &[])];
    until_started(&fleet, 1).await;
    let waiting = ask(&fleet, 1, &[]);
    until_pending(&fleet, 1).await;
    let refused = ask(&fleet, 2, &[]).await.unwrap();
    assert_eq!((refused.status, &refused.error()["code"]), (429.try_into().unwrap(), &json!("queue_full")));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert!(refused.error()["message"].as_str().unwrap().contains("pool.queue.limit"));
    for answer in served.into_iter().chain([waiting]) {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count(REFUSED, &[("reason", "full")]), 1);
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "rejected")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn the_time_to_come_back_left_the_line_out() {
    let fleet = fleet(1, QueueConfig { limit: 6, ..QueueConfig::default() }).await;
    for number in 0..2 {
        assert_eq!(ask(&fleet, number, &[]).await.unwrap().status, 200, "it shows how fast the worker is");
    }
    let waiting: Vec<_> = (2..9).map(|number| ask(&fleet, number, &[])).collect();
    until_pending(&fleet, 6).await;
    let refused = ask(&fleet, 9, &[]).await.unwrap();
    assert_eq!(refused.error()["code"], "queue_full");
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(after >= 5, "six prompts of a second each wait, and {after} s are said");
    waiting.iter().for_each(JoinHandle::abort);
    fleet.stop().await;
}

#[tokio::test]
async fn whoever_waited_too_long_is_refused() {
    let patience = Duration::from_millis(200);
    let fleet = fleet(1, QueueConfig { timeout: patience, ..QueueConfig::default() }).await;
    let served = ask(&fleet, 0, &[]);
    until_started(&fleet, 1).await;
    let refused = ask(&fleet, 1, &[]).await.unwrap();
    assert_eq!(
        (refused.status, &refused.error()["code"]),
        (503.try_into().unwrap(), &json!("queue_timeout"))
    );
    assert!(refused.header("retry-after").is_some());
    assert_eq!(served.await.unwrap().status, 200);
    let scrape = fleet.at_rest().await;
    assert_eq!((scrape.count(REFUSED, &[("reason", "timeout")]), scrape.sum(PENDING, &[])), (1, Some(0.0)));
    fleet.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_is_never_dispatched() {
    let fleet = fleet(1, QueueConfig::default()).await;
    let served_one = ask(&fleet, 0, &[]);
    until_started(&fleet, 1).await;
    let url = fleet.data("/v1/chat/completions");
    let impatient = Client::default();
    let left = timeout(Duration::from_millis(150), impatient.post(&url, &question(1))).await;
    assert!(left.is_err());
    drop(impatient);
    until_pending(&fleet, 0).await;
    assert_eq!(served_one.await.unwrap().status, 200);
    assert_eq!(ask(&fleet, 2, &[]).await.unwrap().status, 200);
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), 1);
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "completed")]), 2);
    assert_eq!(served(&fleet).await, 2);
    fleet.stop().await;
}

#[tokio::test]
async fn whole_answers_do_not_block_a_worker_that_has_computed_their_prompts() {
    let decoding = SimConfig { decode_tps: 4, ..SimConfig::default() };
    let fleet = Fleet::start_with(vec![decoding], |urls| config(urls, QueueConfig::default())).await;
    let (client, url) = (fleet.client.clone(), fleet.data("/v1/chat/completions"));
    let mut whole = question(0);
    (whole["stream"], whole["max_tokens"]) = (json!(false), json!(400));
    let long = tokio::spawn(async move { timeout(Duration::from_secs(60), client.post(&url, &whole)).await });
    until_started(&fleet, 1).await;
    assert_eq!(ask(&fleet, 1, &[]).await.unwrap().status, 200);
    assert!(!long.is_finished());
    long.abort();
    fleet.stop().await;
}

#[tokio::test]
async fn a_request_waits_for_a_worker_that_is_away() {
    let mut fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    assert_eq!(ask(&fleet, 0, &[]).await.unwrap().status, 200);
    let address = fleet.engines[0].address();
    fleet.engines.remove(0).stop().await;
    fleet.client.until(&fleet.admin("/api/workers"), |answer| answer.json()[0]["state"] == "unhealthy").await;
    let answer = ask(&fleet, 1, &[]);
    until_pending(&fleet, 1).await;
    let engine = engine(SimConfig { listen: address, ..SimConfig::default() }).await;
    assert_eq!(answer.await.unwrap().status, 200);
    fleet.stop().await;
    engine.stop().await;
}
