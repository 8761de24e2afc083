//! A cache that was emptied without a word.

use std::sync::Arc;
use std::time::Duration;

use kvroute_sim::{Incident, SimConfig};
use kvroute_testkit::{CapturedLog, Fleet};
use tokio::task::JoinSet;

use super::asking::{Asked, COMPLETIONS, ask, body, engine, prompt, rank, until_blocks, until_state};

#[tokio::test]
async fn three_broken_promises_make_a_source_suspect_and_a_kept_one_ends_it() {
    let fleet = Fleet::start(vec![engine()], "kv").await;
    let prompts: Vec<_> = (1..=3).map(|number| prompt(number, 50)).collect();
    for prompt in &prompts {
        ask(&fleet, prompt).await;
    }
    until_blocks(&fleet, 0, 9).await;
    fleet.engines[0].cause(Incident::Wipe).await;
    for (broken, prompt) in prompts.iter().enumerate() {
        assert_eq!(rank(&fleet, 0).await["source_state"], "exact", "after {broken} broken promises");
        let Asked { predicted, reused, .. } = ask(&fleet, prompt).await;
        assert_eq!((predicted, reused), (48, 0));
    }
    until_state(&fleet, 0, "suspect").await;

    let kept = ask(&fleet, &prompts[0]).await;
    assert_eq!((kept.predicted, kept.reused), (48, 48), "what the index believes is still shown");
    until_state(&fleet, 0, "exact").await;
    fleet.stop().await;
}

/// vLLM tells of a reset together with its next step: the request behind the reset is the one that finds out.
#[tokio::test]
async fn a_reset_that_is_told_late_costs_one_prediction_and_has_a_reason() {
    let fleet = Fleet::start(vec![engine()], "kv").await;
    let (first, second) = (prompt(1, 50), prompt(2, 50));
    for prompt in [&first, &second] {
        ask(&fleet, prompt).await;
    }
    until_blocks(&fleet, 0, 6).await;
    fleet.engines[0].cause(Incident::LateReset).await;
    let broken = ask(&fleet, &first).await;
    assert_eq!((broken.predicted, broken.reused), (48, 0));
    until_blocks(&fleet, 0, 3).await;
    let cold = ask(&fleet, &second).await;
    assert_eq!((cold.predicted, cold.reused), (0, 0));
    let lost = |answer: &kvroute_testkit::Answer| {
        let scrape = kvroute_testkit::Exposition::parse(&answer.text());
        let reason = |reason: &str| {
            let labels = [("stage", "delivery"), ("reason", reason)];
            scrape.count("kvroute_router_reuse_lost_tokens_total", &labels)
        };
        (reason("stale_index"), reason("unexplained")) == (48, 0)
    };
    fleet.client.until(&fleet.admin("/metrics"), lost).await;
    fleet.stop().await;
}

/// An engine that must compute the whole prompt reports no reuse, whatever it has cached.
#[tokio::test]
async fn requests_for_prompt_logprobs_made_a_healthy_engine_suspect() {
    let fleet = Fleet::start(vec![engine()], "kv").await;
    let prompts: Vec<_> = (1..=3).map(|number| prompt(number, 50)).collect();
    for prompt in &prompts {
        ask(&fleet, prompt).await;
    }
    until_blocks(&fleet, 0, 9).await;
    fleet.engines[0].cause(Incident::Wipe).await; // The simulated engine heeds its cache, so it is emptied.
    for prompt in &prompts {
        let mut body = body(prompt);
        body["prompt_logprobs"] = serde_json::json!(1);
        assert_eq!(fleet.client.post(&fleet.data(COMPLETIONS), &body).await.status, 200);
    }
    fleet.at_rest().await;
    tokio::time::sleep(Duration::from_secs(3)).await; // Until every report would have been judged.
    assert_eq!(rank(&fleet, 0).await["source_state"], "exact");
    fleet.stop().await;
}

/// A cache that is too small for its traffic evicts between a decision and its prefill, and says so.
#[tokio::test]
async fn an_engine_that_evicts_under_pressure_was_called_suspect() {
    let log = CapturedLog::start();
    let small = SimConfig { kv_blocks: 60, prefill_tps: 40_000, ..engine() };
    let fleet = Arc::new(Fleet::start(vec![small], "kv").await);
    let mut users = JoinSet::new();
    for user in 1..=6 {
        let fleet = Arc::clone(&fleet);
        users.spawn(async move {
            for turn in 1..=8 {
                let answer =
                    fleet.client.post(&fleet.data(COMPLETIONS), &body(&prompt(user, 60 * turn))).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
            }
        });
    }
    users.join_all().await;
    let scrape = fleet.at_rest().await;
    assert!(scrape.count("kvroute_router_reuse_lost_tokens_total", &[("reason", "stale_index")]) > 0);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let rank = fleet.engines[0].address().to_string();
    let suspicions =
        log.entries(|entry| entry.field("state") == "suspect" && entry.field("rank").starts_with(&rank));
    assert!(suspicions.is_empty(), "{suspicions:?}");
    Arc::into_inner(fleet).unwrap().stop().await;
}

/// A suspect's cached prefix is still shown as the best one, and no longer decides.
#[tokio::test]
async fn a_suspect_gets_no_credit_for_what_it_is_believed_to_hold() {
    let fleet = Fleet::start(vec![engine(), engine()], "kv").await;
    let prompts: Vec<_> = (1..=3).map(|number| prompt(number, 50)).collect();
    let at = |engine: usize| format!("{}{COMPLETIONS}", fleet.engines[engine].url());
    for prompt in &prompts {
        assert_eq!(fleet.client.post(&at(0), &body(prompt)).await.status, 200);
    }
    assert_eq!(fleet.client.post(&at(1), &body(&prompts[0][..33])).await.status, 200);
    until_blocks(&fleet, 0, 9).await;
    until_blocks(&fleet, 1, 2).await;
    fleet.engines[0].cause(Incident::Wipe).await;
    for prompt in &prompts {
        assert_eq!(ask(&fleet, prompt).await.worker, fleet.engines[0].address().to_string());
    }
    until_state(&fleet, 0, "suspect").await;
    let asked = ask(&fleet, &prompts[0]).await;
    assert_eq!(asked.worker, fleet.engines[1].address().to_string());
    assert_eq!(asked.predicted, 32);
    let best = "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total";
    assert_eq!(fleet.scrape().await.count(best, &[]), 4 * 48);
    fleet.stop().await;
}
