//! How a worker that was left alone gets another chance.

use std::time::Duration;

use kvroute_router::config::PoolConfig;
use kvroute_sim::Faults;

use super::world::{
    answers_with, ask, ask_of, attempts, break_engine, chat, fleet, is_open, name, stream, until_state,
};

/// One failure leaves a worker alone, for next to no time.
fn tries_again_at_once(pool: &mut PoolConfig) {
    pool.breaker.failures = 1;
    pool.breaker.cooldown = Duration::from_millis(1);
    pool.breaker.longest = Duration::from_millis(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_after_its_time_closes_it_if_the_worker_is_well_again() {
    let fleet = fleet(2, tries_again_at_once).await;
    break_engine(&fleet, 0, answers_with(503)).await;
    let broken = name(&fleet.engines[0].url());
    let mut number = 0;
    while !is_open(&fleet.scrape().await, &broken) {
        assert_eq!(ask(&fleet, &chat(number)).await.status, 200);
        number += 1;
    }
    break_engine(&fleet, 0, Faults::default()).await;
    while is_open(&fleet.scrape().await, &broken) {
        assert_eq!(ask_of(&fleet, &broken, &chat(number)).await.status, 200, "it may be tried at once");
        number += 1;
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_worker_was_left_where_all_of_them_had_failed() {
    let fleet = fleet(2, |pool| pool.breaker.failures = 1).await;
    for engine in 0..2 {
        break_engine(&fleet, engine, answers_with(503)).await;
    }
    for number in 0..4 {
        let answer = ask(&fleet, &chat(number)).await;
        assert_eq!(answer.status, 503);
        assert!(answer.text().contains("503"), "the engine's own words: {}", answer.text());
    }
    let scrape = fleet.at_rest().await;
    for engine in &fleet.engines {
        assert!(is_open(&scrape, &name(&engine.url())));
    }
    assert_eq!(attempts(&scrape, "failed"), 8, "each request was tried on both");
    assert_eq!(fleet.client.get(&fleet.data("/ready")).await.status, 200, "or nobody would ever try again");

    for engine in 0..2 {
        break_engine(&fleet, engine, Faults::default()).await;
    }
    for number in 4..8 {
        assert_eq!(ask(&fleet, &stream(number)).await.status, 200);
    }
    assert!(attempts(&fleet.at_rest().await, "completed") >= 4);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_was_lost_with_the_client_that_had_it() {
    let fleet = fleet(1, tries_again_at_once).await;
    let broken = name(&fleet.engines[0].url());
    break_engine(&fleet, 0, answers_with(500)).await;
    ask(&fleet, &chat(0)).await;
    assert!(is_open(&fleet.scrape().await, &broken));
    break_engine(&fleet, 0, Faults { stall_after_chunks: Some(0), ..Faults::default() }).await;
    drop(fleet.client.open(&fleet.data("/v1/chat/completions"), &stream(1)).await);
    break_engine(&fleet, 0, Faults::default()).await;
    fleet.at_rest().await;
    assert_eq!(ask_of(&fleet, &broken, &chat(2)).await.status, 200);
    until_state(&fleet, &broken, "ready").await;
    fleet.stop().await;
}
