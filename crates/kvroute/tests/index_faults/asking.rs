//! Small fleets, asked one request after the other.

use kvroute_core::BlockSize;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Answer, Fleet};
use serde_json::{Value, json};

pub(crate) const COMPLETIONS: &str = "/v1/completions";
pub(crate) const BLOCK: u64 = 16;

const F3: &str = "dynamo_component_router_kv_selected_cached_prefix_tokens_total";

/// What one request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Address of the engine that answered.
    pub(crate) worker: String,
    /// Tokens that the router expected to be cached there: F3.
    pub(crate) predicted: u64,
    /// Tokens that the engine found cached.
    pub(crate) reused: u64,
}

pub(crate) fn engine() -> SimConfig {
    SimConfig { block_size: BlockSize::new(BLOCK as u32).unwrap(), ..SimConfig::default() }
}

/// A prompt of its own: no two numbers share a block.
pub(crate) fn prompt(number: u32, tokens: u64) -> Vec<u32> {
    (0..tokens as u32).map(|position| 300 + (number * 7919 + position * (2 * number + 1)) % 1_500).collect()
}

pub(crate) fn body(prompt: &[u32]) -> Value {
    json!({"model": "sim", "prompt": prompt, "max_tokens": 1})
}

/// The engine that gave an answer through the router.
pub(crate) fn worker_of(answer: &Answer) -> String {
    answer.headers["x-simulated-engine"].to_str().unwrap().to_owned()
}

/// Sends one prompt while nothing else is sent.
pub(crate) async fn ask(fleet: &Fleet, prompt: &[u32]) -> Asked {
    let before = predicted(fleet).await;
    let answer = fleet.client.post(&fleet.data(COMPLETIONS), &body(prompt)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    fleet.at_rest().await;
    Asked {
        worker: worker_of(&answer),
        predicted: predicted(fleet).await - before,
        reused: answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(),
    }
}

/// F3 so far.
async fn predicted(fleet: &Fleet) -> u64 {
    fleet.scrape().await.sum(F3, &[]).unwrap_or_default() as u64
}

/// The only rank of a worker, as the admin plane shows it.
pub(crate) async fn rank(fleet: &Fleet, worker: usize) -> Value {
    fleet.workers().await[worker]["ranks"][0].clone()
}

/// Waits until a worker's only rank satisfies a condition.
pub(crate) async fn until_rank(fleet: &Fleet, worker: usize, holds: impl Fn(&Value) -> bool) -> Value {
    let workers = fleet.admin("/api/workers");
    let answer = fleet.client.until(&workers, |answer| holds(&answer.json()[worker]["ranks"][0])).await;
    answer.json()[worker]["ranks"][0].clone()
}

pub(crate) async fn until_state(fleet: &Fleet, worker: usize, state: &str) -> Value {
    until_rank(fleet, worker, |rank| rank["source_state"] == state).await
}

/// Waits until the index holds so many blocks of a worker.
pub(crate) async fn until_blocks(fleet: &Fleet, worker: usize, blocks: u64) {
    until_rank(fleet, worker, |rank| rank["blocks"] == blocks).await;
}
