//! A fleet, and what is asked of its admin plane.

use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Fleet, server_config};
use serde_json::{Value, json};

/// Long enough for several blocks.
pub(crate) const PROMPT: &str =
    "the quick brown fox jumps over the lazy dog and on through the wood by the river ";

/// Engines without delays behind a router that trusts this host.
pub(crate) async fn start(engines: usize, policy: &str) -> Fleet {
    start_with(engines, policy, |_| {}).await
}

/// The same, with a configuration that `change` has the last word on.
pub(crate) async fn start_with(engines: usize, policy: &str, change: impl FnOnce(&mut ServeConfig)) -> Fleet {
    Fleet::start_with(vec![SimConfig::default(); engines], |urls| {
        let mut config = server_config(urls, policy);
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        change(&mut config);
        config
    })
    .await
}

/// The body of a completion.
pub(crate) fn completion(prompt: &str) -> Value {
    json!({"model": "sim", "prompt": prompt, "max_tokens": 2})
}

/// Serves a completion to its end and gives the answer once its record is whole.
pub(crate) async fn serve(fleet: &Fleet, prompt: &str) -> Answer {
    let answer = fleet.client.post(&fleet.data("/v1/completions"), &completion(prompt)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    reported(fleet).await;
    answer
}

/// The same, once the router knows of its blocks, too.
pub(crate) async fn serve_known(fleet: &Fleet, prompt: &str) -> Answer {
    let answer = serve(fleet, prompt).await;
    let is_known = |worker: &Value| worker["ranks"][0]["blocks"].as_u64() > Some(0);
    let workers = fleet.admin("/api/workers");
    fleet.client.until(&workers, |answer| answer.json().as_array().unwrap().iter().any(is_known)).await;
    answer
}

/// Waits until every attempt is over and stands in its record.
pub(crate) async fn reported(fleet: &Fleet) {
    fleet.at_rest().await;
    let is_reported = |record: &Value| !record["report"].is_null();
    let records = fleet.admin("/api/decisions");
    fleet.client.until(&records, |answer| answer.json().as_array().unwrap().iter().all(is_reported)).await;
}

/// The value of a response header.
pub(crate) fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).unwrap_or_else(|| panic!("no {name}")).to_str().unwrap()
}

/// What would happen to a completion.
pub(crate) async fn advice(fleet: &Fleet, prompt: &str) -> Value {
    let answer = ask(fleet, json!({"endpoint": "/v1/completions", "body": completion(prompt)})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// `POST /api/route`.
pub(crate) async fn ask(fleet: &Fleet, question: Value) -> Answer {
    fleet.client.post(&fleet.admin("/api/route"), &question).await
}

/// The newest decisions.
pub(crate) async fn listed(fleet: &Fleet, query: &str) -> Vec<Value> {
    let list = fleet.client.get(&fleet.admin(&format!("/api/decisions{query}"))).await;
    assert_eq!(list.status, 200, "{}", list.text());
    list.json().as_array().unwrap().clone()
}

/// One decision.
pub(crate) async fn decision(fleet: &Fleet, id: &str) -> Value {
    let answer = fleet.client.get(&fleet.admin(&format!("/api/decisions/{id}"))).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The candidate of that worker.
pub(crate) fn candidate<'a>(decision: &'a Value, worker: &Value) -> &'a Value {
    let candidates = decision["candidates"].as_array().unwrap();
    candidates.iter().find(|candidate| candidate["worker_id"] == *worker).unwrap()
}

/// The name of the other one of two workers.
pub(crate) fn other_worker(decision: &Value) -> Value {
    let candidates = decision["candidates"].as_array().unwrap();
    let other = candidates.iter().find(|candidate| candidate["worker_id"] != decision["worker_id"]);
    other.unwrap()["worker_id"].clone()
}
