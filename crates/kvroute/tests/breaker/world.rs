//! A router in front of engines that can be made to fail, and what is asked of it.

use std::time::Duration;

use kvroute_router::config::PoolConfig;
use kvroute_server::ServeConfig;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Answer, Exposition, Fault, FaultyProxy, Fleet, server_config};
use serde_json::{Value, json};

/// Longer than any test: what is left alone for so long is left alone for good.
pub(crate) const FOR_GOOD: Duration = Duration::from_secs(24 * 3600);

/// Engines in a trusted router; workers that fail are left alone for good, and the rest is as `change` has it.
pub(crate) fn config(urls: &[String], change: impl FnOnce(&mut PoolConfig)) -> ServeConfig {
    let mut config = server_config(urls, "kv");
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let pool = &mut config.router.pools[0];
    pool.breaker.cooldown = FOR_GOOD;
    pool.breaker.longest = FOR_GOOD;
    pool.queue.timeout = Duration::from_millis(200);
    change(pool);
    config
}

pub(crate) async fn fleet(engines: usize, change: impl FnOnce(&mut PoolConfig)) -> Fleet {
    Fleet::start_with(vec![SimConfig::default(); engines], |urls| config(urls, change)).await
}

/// The same with a proxy in front of each engine.
pub(crate) async fn fleet_behind(
    engines: usize,
    change: impl FnOnce(&mut PoolConfig),
) -> (Fleet, Vec<FaultyProxy>) {
    let engines = vec![SimConfig::default(); engines];
    Fleet::start_behind(engines, Fault::None, |urls| config(urls, change)).await
}

pub(crate) fn answers_with(status: u16) -> Faults {
    Faults { refuse_status: Some(status), ..Faults::default() }
}

pub(crate) async fn break_engine(fleet: &Fleet, engine: usize, faults: Faults) {
    fleet.engines[engine].set_faults(faults).await.unwrap();
}

/// A chat that shares nothing with one of another number.
pub(crate) fn chat(number: usize) -> Value {
    let text = format!("{number} is the number of a story that nobody has told yet. ").repeat(8);
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 4})
}

pub(crate) fn stream(number: usize) -> Value {
    let mut body = chat(number);
    body["stream"] = json!(true);
    body
}

pub(crate) async fn ask(fleet: &Fleet, body: &Value) -> Answer {
    fleet.client.post(&fleet.data("/v1/chat/completions"), body).await
}

/// The same of one engine and no other.
pub(crate) async fn ask_of(fleet: &Fleet, worker: &str, body: &Value) -> Answer {
    let url = fleet.data("/v1/chat/completions");
    fleet.client.post_with(&url, &[("x-kvroute-worker", worker)], body).await
}

/// Name of a worker.
pub(crate) fn name(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}

/// What the admin plane tells of a worker.
pub(crate) async fn worker(fleet: &Fleet, name: &str) -> Value {
    let workers = fleet.workers().await;
    workers.as_array().unwrap().iter().find(|worker| worker["id"] == name).unwrap().clone()
}

pub(crate) async fn until_state(fleet: &Fleet, name: &str, state: &str) {
    let is_so =
        |list: Value| list.as_array().unwrap().iter().any(|one| one["id"] == name && one["state"] == state);
    fleet.client.until(&fleet.admin("/api/workers"), |answer| is_so(answer.json())).await;
}

pub(crate) fn attempts(scrape: &Exposition, outcome: &str) -> u64 {
    scrape.count("kvroute_attempts_total", &[("outcome", outcome)])
}

pub(crate) fn retries(scrape: &Exposition, reason: &str) -> u64 {
    scrape.count("kvroute_retries_total", &[("reason", reason)])
}

pub(crate) fn refused_retries(scrape: &Exposition, reason: &str) -> u64 {
    scrape.count("kvroute_retries_refused_total", &[("reason", reason)])
}

pub(crate) fn is_open(scrape: &Exposition, name: &str) -> bool {
    scrape.count("kvroute_worker_state", &[("worker_id", name), ("state", "open")]) == 1
}
