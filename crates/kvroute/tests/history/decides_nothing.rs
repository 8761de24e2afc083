//! Decisions are the same with a history and without one, to the last bit of every cost.

use kvroute_router::config::IndexSource;
use kvroute_server::ServeConfig;
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};

use super::asking::{BLOCK, body, engine, prompt, send, with_history};

const REQUESTS: u32 = 24;

/// Every decision of a run, oldest first, without names and times.
async fn decisions(change: fn(&mut ServeConfig)) -> Vec<Value> {
    let fleet = Fleet::start_with(vec![engine(); 3], |urls| {
        let mut config = server_config(urls, "kv");
        // What a worker was given lately fades with time, and no two runs take the same.
        config.router.pools[0].weights.recent = 0.0;
        // Events arrive when they do.
        config.router.pools[0].index.source = IndexSource::Remembered;
        change(&mut config);
        config
    })
    .await;
    for number in 0..REQUESTS {
        let tokens = BLOCK * (2 + u64::from(number % 5));
        send(&fleet, &body(&prompt(number % 7, tokens))).await;
        fleet.at_rest().await;
    }
    let list = fleet.client.get(&fleet.admin("/api/decisions?limit=100")).await.json();
    let mut names = Vec::new();
    let made = list.as_array().unwrap().iter().rev().map(|decision| digest(decision, &mut names)).collect();
    fleet.stop().await;
    made
}

/// Workers are alike, and their order is that in which they happened to join: they are named by who was picked first.
fn digest(decision: &Value, names: &mut Vec<Value>) -> Value {
    if !names.contains(&decision["worker_id"]) {
        names.push(decision["worker_id"].clone());
    }
    let position = |of: &Value| names.iter().position(|name| of["worker_id"] == *name).unwrap_or(names.len());
    let mut candidates: Vec<_> = decision["candidates"].as_array().unwrap().iter().collect();
    candidates.sort_by_key(|candidate| position(candidate));
    let costs: Vec<_> =
        candidates.iter().map(|candidate| json!([candidate["cost"], candidate["terms"]])).collect();
    json!([position(decision), decision["reason"], decision["selected_cached_tokens"], costs])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_changes_no_decision() {
    let without = decisions(|_| {}).await;
    let with = decisions(|config| {
        with_history(&mut config.router.pools[0]);
        config.router.pools[0].history.bytes = 64 << 10;
    })
    .await;
    assert_eq!(without.len(), REQUESTS as usize);
    assert_eq!(with, without);
    let other = decisions(|config| config.router.pools[0].weights.device = 0.0).await;
    assert_ne!(other, without, "decisions that differ look different");
}
