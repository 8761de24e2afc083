//! Small fleets with a history, asked one request after the other.

use kvroute_core::BlockSize;
use kvroute_router::config::PoolConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Exposition, Fleet, server_config};
use serde_json::{Value, json};

pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const BLOCK: u64 = 16;

/// F1 of all attempts so far, by label and without.
const F1: &str = "kvroute_router_history_cached_tokens_total";
const F1_STANDARD: &str = "dynamo_component_router_kv_history_cached_prefix_tokens_total";

/// What the history did with the attempts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) complete: u64,
    pub(crate) incomplete: u64,
    /// Input of both.
    pub(crate) input: u64,
    /// F1 of both.
    pub(crate) history: u64,
}

pub(crate) fn engine() -> SimConfig {
    SimConfig { block_size: BlockSize::new(BLOCK as u32).unwrap(), ..SimConfig::default() }
}

pub(crate) fn with_history(pool: &mut PoolConfig) {
    pool.history.enabled = true;
    pool.history.bytes = 4 << 20;
}

/// A fleet of such engines whose pool `change` has the last word on.
pub(crate) async fn fleet(engines: Vec<SimConfig>, policy: &str, change: fn(&mut PoolConfig)) -> Fleet {
    Fleet::start_with(engines, |urls| {
        let mut config = server_config(urls, policy);
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        with_history(&mut config.router.pools[0]);
        change(&mut config.router.pools[0]);
        config
    })
    .await
}

/// A prompt of its own: no two numbers share a block.
pub(crate) fn prompt(number: u32, tokens: u64) -> Vec<u32> {
    (0..tokens as u32).map(|position| 300 + (number * 7919 + position * (2 * number + 1)) % 1_500).collect()
}

pub(crate) fn body(prompt: &[u32]) -> Value {
    json!({"model": "sim", "prompt": prompt, "max_tokens": 1})
}

/// Sends one completion to its end.
pub(crate) async fn send(fleet: &Fleet, body: &Value) -> Answer {
    let answer = fleet.client.post(&fleet.data(COMPLETIONS), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// F1 of one prompt that is sent to its end while nothing else is sent.
pub(crate) async fn ask(fleet: &Fleet, prompt: &[u32]) -> u64 {
    let before = observed(fleet).await;
    send(fleet, &body(prompt)).await;
    observed(fleet).await.history - before.history
}

/// What was observed so far, once nothing is in flight. Its own equations hold.
pub(crate) async fn observed(fleet: &Fleet) -> Observed {
    let scrape = fleet.at_rest().await;
    let observations = |result| count(&scrape, "router_cache_loss_observations_total", &[("result", result)]);
    let observed = Observed {
        complete: observations("complete"),
        incomplete: observations("incomplete"),
        input: count(&scrape, "router_cache_loss_observation_input_tokens_total", &[]),
        history: scrape.sum(F1, &[]).unwrap_or_default() as u64,
    };
    assert_eq!(scrape.count(F1_STANDARD, &[]), observed.history, "with and without labels");
    observed
}

/// Entries of the history.
pub(crate) async fn entries(fleet: &Fleet) -> u64 {
    fleet.client.get(&fleet.admin("/api/funnel?window=all")).await.json()["models"][0]["history"]["blocks"]
        .as_u64()
        .unwrap()
}

fn count(scrape: &Exposition, family: &str, labels: &[(&str, &str)]) -> u64 {
    scrape.count(&format!("dynamo_component_{family}"), labels)
}
