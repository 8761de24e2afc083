//! What a continued stream leaves in the books.

use kvroute_core::BlockSize;
use kvroute_router::config::PoolConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::Ledger;

use serde_json::json;

use super::asking::{BOTH, CHAT, COMPLETIONS, LENGTH, fleet, request, until_migrated};

const BLOCK: u64 = 16;

/// What is in the history, of all requests so far.
const F1: &str = "kvroute_router_history_cached_tokens_total";

/// Chunks before the break: in a chat the first one only tells the role.
const CHUNKS: u32 = 6;

fn engine() -> SimConfig {
    SimConfig { block_size: BlockSize::new(BLOCK as u32).unwrap(), ..SimConfig::default() }
}

fn breaking(chunks: u32) -> SimConfig {
    SimConfig { faults: super::asking::breaking(chunks).faults, ..engine() }
}

fn with_history(pool: &mut PoolConfig) {
    pool.history.enabled = true;
    pool.history.bytes = 4 << 20;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continuation_is_a_further_attempt_of_one_request() {
    for path in BOTH {
        let fleet = fleet(vec![breaking(CHUNKS), engine()], with_history).await;
        let seen = until_migrated(&fleet, path, &request(path, 1)).await;
        let prompt = seen.usage[0]["prompt_tokens"].as_u64().unwrap();
        let first_part = u64::from(CHUNKS) - u64::from(path == CHAT);
        let scrape = fleet.at_rest().await;
        Ledger::of(&scrape).assert_closes();
        let count = |name: &str, labels: &[(&str, &str)]| scrape.count(name, labels);
        let requests = count("kvroute_requests_total", &[("outcome", "completed")]);
        assert_eq!(count("kvroute_requests_total", &[]), requests, "every client got its answer");
        assert_eq!(count("kvroute_attempts_total", &[("outcome", "failed")]), 1);
        assert_eq!(count("kvroute_attempts_total", &[("outcome", "completed")]), requests);
        assert_eq!(count("kvroute_migrations_total", &[("reason", "broken")]), 1);
        assert_eq!(count("kvroute_retries_total", &[]), 0, "a migration is no retry");
        let repeated = count("kvroute_router_repeated_input_tokens_total", &[]);
        assert_eq!(repeated, prompt + first_part, "{path}");
        let observations = "dynamo_component_router_cache_loss_observations_total";
        assert_eq!(count(observations, &[("result", "incomplete")]), 1);
        assert_eq!(count(observations, &[("result", "complete")]), requests);
        let lengths =
            |suffix: &str| count(&format!("dynamo_component_router_output_sequence_tokens{suffix}"), &[]);
        assert_eq!(
            (lengths("_count"), lengths("_sum")),
            (requests, requests * LENGTH),
            "one length a request"
        );
        let times = count("dynamo_component_router_time_to_first_token_seconds_count", &[]);
        assert_eq!(times, requests, "one first token a request");
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_learns_both_parts_of_the_answer_and_nothing_of_what_broke() {
    let fleet = fleet(vec![breaking(CHUNKS), engine()], with_history).await;
    let body = request(COMPLETIONS, 1);
    let seen = until_migrated(&fleet, COMPLETIONS, &body).await;
    let whole = seen.usage[0]["total_tokens"].as_u64().unwrap();
    let before = fleet.at_rest().await.count(F1, &[]);
    let mut next = body.clone();
    next["prompt"] = format!("{}{}", body["prompt"].as_str().unwrap(), seen.text).into();
    next["stream"] = false.into();
    next.as_object_mut().unwrap().remove("stream_options");
    fleet.client.post(&format!("{}/faults", fleet.engines[0].url()), &json!({})).await;
    assert_eq!(fleet.client.post(&fleet.data(COMPLETIONS), &next).await.status, 200);
    let known = fleet.at_rest().await.count(F1, &[]) - before;
    assert_eq!(known, (whole - 1) / BLOCK * BLOCK, "of {whole} tokens");
    fleet.stop().await;
}
