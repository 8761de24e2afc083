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

use std::ops::Deref;
use std::time::Duration;

use kvroute_core::Tokens;
use kvroute_router::config::{BusyThreshold, QueueConfig};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Client, Fault, FaultyProxy, Fleet, engine, server_config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PENDING: &str = "dynamo_frontend_router_queue_pending_requests";
const REFUSED: &str = "kvroute_queue_refused_total";

/// A worker that needs long for a prompt.
fn slow() -> SimConfig {
    SimConfig { prefill_tps: 1500, ..SimConfig::default() }
}

/// Workers that count as busy with a single prompt.
fn config(urls: &[String], queue: QueueConfig) -> ServeConfig {
    let mut config = server_config(urls, "kv");
    config.router.pools[0].queue = QueueConfig { threshold: BusyThreshold::Tokens(Tokens::ZERO), ..queue };
    config
}

/// Workers whose answers come when the test lets them: until then each is busy with the first prompt that it was given.
struct Held {
    fleet: Fleet,
    proxies: Vec<FaultyProxy>,
}

impl Held {
    async fn start(workers: usize, queue: QueueConfig) -> Self {
        Self::of(vec![SimConfig::default(); workers], Fault::Hold, |urls| config(urls, queue)).await
    }

    async fn of(
        engines: Vec<SimConfig>,
        fault: Fault,
        config: impl FnOnce(&[String]) -> ServeConfig,
    ) -> Self {
        let (fleet, proxies) = Fleet::start_behind(engines, fault, config).await;
        Self { fleet, proxies }
    }

    /// From now on answers are held back.
    fn hold(&self) {
        self.proxies.iter().for_each(|proxy| proxy.set(Fault::Hold));
    }

    /// From now on they come, those too that were held back.
    fn release(&self) {
        self.proxies.iter().for_each(|proxy| proxy.set(Fault::None));
    }

    async fn stop(self) {
        self.fleet.stop().await;
    }
}

impl Deref for Held {
    type Target = Fleet;

    fn deref(&self) -> &Fleet {
        &self.fleet
    }
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

/// A client that asks and leaves as soon as something has come true.
async fn leaves_once(fleet: &Fleet, has_come: impl Future<Output = ()>) {
    let (impatient, url, body) = (Client::default(), fleet.data("/v1/chat/completions"), question(1));
    tokio::select! {
        answer = impatient.post(&url, &body) => panic!("answered with {}", answer.status),
        () = has_come => {}
    }
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
    let fleet = Held::start(2, QueueConfig::default()).await;
    let mut answers = Vec::new();
    for number in 0..2 {
        // One after the other: two that come at once may take the same room.
        answers.push(ask(&fleet, number, &[]));
        until_started(&fleet, number as u64 + 1).await;
    }
    answers.extend((2..5).map(|number| ask(&fleet, number, &[])));
    until_pending(&fleet, 3).await;
    fleet.release();
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
    let fleet = Held::start(1, QueueConfig::default()).await;
    let first = ask(&fleet, 0, &[("x-request-id", "first")]);
    until_started(&fleet, 1).await;
    let low = ask(&fleet, 1, &[("x-request-id", "low")]);
    until_pending(&fleet, 1).await;
    let high = ask(&fleet, 2, &[("x-request-id", "high"), ("x-kvroute-priority", "5")]);
    until_pending(&fleet, 2).await;
    fleet.release();
    for answer in [first, low, high] {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    let decisions = fleet.client.get(&fleet.admin("/api/decisions")).await.json();
    let order: Vec<_> = decisions.as_array().unwrap().iter().map(|record| &record["request_id"]).collect();
    assert_eq!(order, ["low", "high", "first"], "the newest decision stands first");
    fleet.stop().await;
}

#[tokio::test]
async fn a_full_queue_refuses_with_the_time_to_come_back() {
    let fleet = Held::start(1, QueueConfig { limit: 1, ..QueueConfig::default() }).await;
    let served = [ask(&fleet, 0, &[])];
    until_started(&fleet, 1).await;
    let waiting = ask(&fleet, 1, &[]);
    until_pending(&fleet, 1).await;
    let refused = ask(&fleet, 2, &[]).await.unwrap();
    assert_eq!((refused.status, &refused.error()["code"]), (429.try_into().unwrap(), &json!("queue_full")));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert!(refused.error()["message"].as_str().unwrap().contains("pool.queue.limit"));
    fleet.release();
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
    let queue = QueueConfig { limit: 6, ..QueueConfig::default() };
    let fleet = Held::of(vec![slow()], Fault::None, |urls| config(urls, queue)).await;
    for number in 0..2 {
        assert_eq!(ask(&fleet, number, &[]).await.unwrap().status, 200, "it shows how fast the worker is");
    }
    fleet.hold();
    // Of several that come at once more than one may take the room.
    let served = ask(&fleet, 2, &[]);
    until_started(&fleet, 3).await;
    let waiting: Vec<_> = (3..9).map(|number| ask(&fleet, number, &[])).collect();
    until_pending(&fleet, 6).await;
    let refused = ask(&fleet, 9, &[]).await.unwrap();
    assert_eq!(refused.error()["code"], "queue_full");
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!(after >= 5, "six prompts of a second each wait, and {after} s are said");
    waiting.iter().chain([&served]).for_each(JoinHandle::abort);
    fleet.stop().await;
}

#[tokio::test]
async fn whoever_waited_too_long_is_refused() {
    let patience = Duration::from_millis(200);
    let fleet = Held::start(1, QueueConfig { timeout: patience, ..QueueConfig::default() }).await;
    let served = ask(&fleet, 0, &[]);
    until_started(&fleet, 1).await;
    let refused = ask(&fleet, 1, &[]).await.unwrap();
    assert_eq!(
        (refused.status, &refused.error()["code"]),
        (503.try_into().unwrap(), &json!("queue_timeout"))
    );
    assert!(refused.header("retry-after").is_some());
    fleet.release();
    assert_eq!(served.await.unwrap().status, 200);
    let scrape = fleet.at_rest().await;
    assert_eq!((scrape.count(REFUSED, &[("reason", "timeout")]), scrape.sum(PENDING, &[])), (1, Some(0.0)));
    fleet.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_the_queue_is_never_dispatched() {
    let fleet = Held::start(1, QueueConfig::default()).await;
    let served_one = ask(&fleet, 0, &[]);
    until_started(&fleet, 1).await;
    leaves_once(&fleet, until_pending(&fleet, 1)).await;
    until_pending(&fleet, 0).await;
    fleet.release();
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
