//! A worker that is left alone is no candidate, whatever it has cached and whoever names it.

use super::world::{answers_with, ask, ask_of, attempts, break_engine, chat, fleet, is_open, name};

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_worker_was_picked_again_for_what_it_had_cached() {
    let fleet = fleet(2, |pool| pool.breaker.failures = 1).await;
    let broken = name(&fleet.engines[0].url());
    assert_eq!(ask_of(&fleet, &broken, &chat(1)).await.status, 200);
    let followed = |answer: &kvroute_testkit::Answer| {
        let ranks = answer.json().as_array().unwrap().clone();
        ranks.iter().any(|worker| worker["id"] == broken && worker["ranks"][0]["blocks"].as_u64() > Some(0))
    };
    fleet.client.until(&fleet.admin("/api/workers"), followed).await;
    break_engine(&fleet, 0, answers_with(500)).await;
    assert_eq!(ask_of(&fleet, &broken, &chat(2)).await.status, 500);
    assert!(is_open(&fleet.scrape().await, &broken));

    assert_eq!(ask(&fleet, &chat(1)).await.status, 200);
    let scrape = fleet.at_rest().await;
    assert_eq!(attempts(&scrape, "failed"), 1, "what it has cached led a request there");
    let labels = [("stage", "eligibility"), ("reason", "unhealthy")];
    assert!(scrape.count("kvroute_router_reuse_lost_tokens_total", &labels) > 0);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_names_it_is_told_what_opened_it() {
    let fleet = fleet(2, |pool| pool.breaker.failures = 1).await;
    let broken = name(&fleet.engines[0].url());
    break_engine(&fleet, 0, answers_with(502)).await;
    assert_eq!(ask_of(&fleet, &broken, &chat(1)).await.status, 502);
    let refused = ask_of(&fleet, &broken, &chat(2)).await;
    assert_eq!(refused.status, 503);
    let message = refused.error()["message"].as_str().unwrap().to_owned();
    let told = format!(
        "{broken} is open: its circuit breaker is open, the last failure: it answered with status 502"
    );
    assert!(message.contains(&told), "{message}");
    fleet.stop().await;
}
