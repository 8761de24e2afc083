//! Cold prompts that come all at once.

use std::collections::HashSet;

use kvroute_sim::SimConfig;
use kvroute_testkit::Fleet;
use tokio::task::JoinSet;

use super::asking::{COMPLETIONS, body, engine, prompt, worker_of};

/// Sends all prompts at once: which engines answered.
async fn workers_of_burst(fleet: &Fleet, prompts: Vec<Vec<u32>>) -> HashSet<String> {
    let mut asked = JoinSet::new();
    for prompt in prompts {
        let (client, url) = (fleet.client.clone(), fleet.data(COMPLETIONS));
        asked.spawn(async move { worker_of(&client.post(&url, &body(&prompt)).await) });
    }
    asked.join_all().await.into_iter().collect()
}

#[tokio::test]
async fn equal_cold_prompts_gather_and_different_ones_spread() {
    let slow = SimConfig { prefill_tps: 8_000, ..engine() };
    let fleet = Fleet::start(vec![slow.clone(), slow.clone(), slow], "kv").await;
    let equal = workers_of_burst(&fleet, vec![prompt(1, 1_200); 9]).await;
    assert_eq!(equal.len(), 1, "one worker computes what eight others wait for: {equal:?}");
    let computed: u64 = fleet.engines.iter().map(|engine| engine.stats().computed_tokens).sum();
    assert_eq!(computed, 1_200 + 8 * 16, "the prompt once, and its last block for each of the others");

    let different = workers_of_burst(&fleet, (2..11).map(|number| prompt(number, 1_200)).collect()).await;
    assert_eq!(different.len(), 3, "{different:?}");
    fleet.stop().await;
}
