//! Work that others give an engine counts in decisions once the engine is asked for its load, and no longer than the
//! engine answers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use kvroute_server::ServeConfig;
use kvroute_sim::{SimConfig, SimEngine};
use kvroute_testkit::{Exposition, Fleet, server_config};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Three of these outlast a machine that is busy with other tests.
const OFTEN: Duration = Duration::from_secs(1);

/// Longer than any test here.
const ENDLESS: u32 = 4_000;

fn slow() -> SimConfig {
    SimConfig { kv_blocks: 1024, decode_tps: 20, ..SimConfig::default() }
}

fn asking(urls: &[String]) -> ServeConfig {
    let mut config = server_config(urls, "least-loaded");
    config.router.pools[0].engine_load = Some(OFTEN);
    config
}

fn short() -> Value {
    json!({
        "model": "sim", "messages": [{"role": "user", "content": "what do others do"}],
        "max_tokens": 1, "stream": true,
    })
}

fn worker_id(engine: &SimEngine) -> String {
    engine.url().trim_start_matches("http://").to_owned()
}

/// Long, and like no other number's: engines read it at every step.
fn long(number: usize) -> Value {
    let text = format!("{number} is what others do, and they do it at length, over and over. ").repeat(80);
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": ENDLESS, "stream": true})
}

/// Waits until the router shows so many requests running on an engine.
async fn shown(fleet: &Fleet, engine: &SimEngine, running: f64) {
    let id = worker_id(engine);
    let labels = [("worker_id", id.as_str()), ("state", "running")];
    let running = Some(running);
    until(fleet, |scrape| scrape.sum("kvroute_worker_engine_requests", &labels) == running).await;
}

async fn until(fleet: &Fleet, holds: impl Fn(&Exposition) -> bool) {
    fleet.client.until(&fleet.admin("/metrics"), |answer| holds(&Exposition::parse(&answer.text()))).await;
}

/// How many requests each engine finished.
async fn served(fleet: &Fleet) -> Vec<u64> {
    let mut served = Vec::new();
    for engine in &fleet.engines {
        let stats = fleet.client.get(&format!("{}/stats", engine.url())).await.json();
        served.push(stats["finished_sequences"].as_u64().unwrap());
    }
    served
}

#[tokio::test]
async fn requests_avoid_an_engine_that_others_keep_busy_until_they_are_gone() {
    let fleet = Fleet::start_with(vec![slow(), slow()], asking).await;
    let mut others = JoinSet::new();
    for number in 0..3 {
        let (client, url) = (fleet.client.clone(), format!("{}/v1/chat/completions", fleet.engines[0].url()));
        others.spawn(async move { client.post(&url, &long(number)).await });
    }
    shown(&fleet, &fleet.engines[0], 3.0).await;

    let url = fleet.data("/v1/chat/completions");
    for _ in 0..8 {
        fleet.client.post(&url, &short()).await;
    }
    assert_eq!(served(&fleet).await, [0, 8]);

    others.shutdown().await;
    shown(&fleet, &fleet.engines[0], 0.0).await;
    let before = served(&fleet).await;
    for _ in 0..64 {
        fleet.client.post(&url, &short()).await;
    }
    let after = served(&fleet).await;
    assert!(after.iter().zip(&before).all(|(after, before)| after > before), "{before:?} {after:?}");
    fleet.stop().await;
}

#[tokio::test]
async fn the_word_of_an_engine_that_is_gone_grows_old() {
    let mut fleet = Fleet::start_with(vec![slow(), slow()], asking).await;
    shown(&fleet, &fleet.engines[0], 0.0).await;
    shown(&fleet, &fleet.engines[1], 0.0).await;
    let stopped = fleet.engines.remove(0);
    let id = worker_id(&stopped);
    stopped.stop().await;
    let age = |scrape: &Exposition| {
        scrape.sum("kvroute_worker_engine_load_age_seconds", &[("worker_id", &id)]).unwrap()
    };
    until(&fleet, |scrape| age(scrape) > 1.0).await;
    fleet.stop().await;
}

#[tokio::test]
async fn nobody_is_asked_unless_it_is_wanted() {
    let fleet = Fleet::start(vec![slow()], "least-loaded").await;
    let scrape = fleet.scrape().await;
    for family in ["kvroute_worker_engine_requests", "kvroute_worker_engine_load_age_seconds"] {
        assert!(scrape.family(family).is_empty(), "{family}");
    }
    fleet.stop().await;
}
