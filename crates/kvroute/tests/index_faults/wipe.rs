//! A cache that was emptied without a word.

use kvroute_sim::Incident;
use kvroute_testkit::Fleet;

use super::asking::{Asked, ask, engine, prompt, rank, until_blocks, until_state};

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
