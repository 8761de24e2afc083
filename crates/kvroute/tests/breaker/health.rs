//! What takes a worker out beside the requests that it fails.

use std::time::Duration;

use kvroute_router::config::TokenizerSource;
use kvroute_testkit::Fault;

use super::world::{FOR_GOOD, ask, chat, fleet_behind, name, until_state, worker};

#[tokio::test(flavor = "multi_thread")]
async fn as_many_bad_answers_as_are_wanted_take_it_out_and_as_many_good_ones_bring_it_back() {
    let (fleet, proxies) = fleet_behind(1, |pool| {
        pool.health.interval = Duration::from_millis(20);
        pool.health.timeout = Duration::from_millis(200);
        (pool.health.failures, pool.health.successes) = (2, 3);
    })
    .await;
    let watched = name(&proxies[0].url());
    proxies[0].set_for_probes(Fault::StallAt(0));
    until_state(&fleet, &watched, "unhealthy").await;
    let problem = worker(&fleet, &watched).await["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("does not answer"), "{problem}");
    assert_eq!(ask(&fleet, &chat(1)).await.status, 503);
    proxies[0].set_for_probes(Fault::None);
    until_state(&fleet, &watched, "ready").await;
    assert_eq!(ask(&fleet, &chat(2)).await.status, 200);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_answer_to_a_probe_took_a_worker_out() {
    let (fleet, proxies) = fleet_behind(1, |pool| {
        pool.health.interval = Duration::from_millis(20);
        pool.health.timeout = Duration::from_millis(20);
        pool.health.failures = 1000;
    })
    .await;
    proxies[0].set_for_probes(Fault::StallAt(0));
    let seen = proxies[0].suffered();
    while proxies[0].suffered() < seen + 3 {
        tokio::task::yield_now().await;
        assert_eq!(ask(&fleet, &chat(1)).await.status, 200, "it goes on serving");
    }
    assert_eq!(worker(&fleet, &name(&proxies[0].url())).await["state"], "ready");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_needs_no_second_opinion() {
    let (fleet, proxies) = fleet_behind(2, |pool| {
        pool.health.interval = Duration::from_secs(3600);
        pool.policy = "round-robin".to_owned();
    })
    .await;
    proxies[0].set(Fault::Refuse);
    for number in 0..2 {
        assert_eq!(ask(&fleet, &chat(number)).await.status, 200);
    }
    until_state(&fleet, &name(&proxies[0].url()), "unhealthy").await;
    fleet.stop().await;
}

/// Asked what it is, it had as long as a probe may take, whatever the limit of its health was.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_doubted_has_no_longer_than_its_health_may_take() {
    let (fleet, proxies) = fleet_behind(1, |pool| {
        pool.tokenizer = TokenizerSource::Engine;
        pool.health.interval = FOR_GOOD;
        pool.health.timeout = Duration::from_millis(200);
        pool.health.failures = 1;
    })
    .await;
    let doubted = name(&proxies[0].url());
    proxies[0].set_for_probes(Fault::StallAt(0));
    assert_eq!(ask(&fleet, &chat(1)).await.status, 200, "nobody tells the ids of its prompt");
    until_state(&fleet, &doubted, "unhealthy").await;
    let problem = worker(&fleet, &doubted).await["problem"].as_str().unwrap().to_owned();
    assert!(problem.contains("/health within pool.health.timeout of 200ms"), "{problem}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_left_a_question_for_token_ids_unanswered_is_asked_last() {
    let (fleet, proxies) = fleet_behind(2, |pool| {
        pool.tokenizer = TokenizerSource::Engine;
        (pool.health.interval, pool.health.timeout) = (FOR_GOOD, FOR_GOOD);
    })
    .await;
    proxies[0].set_for_probes(Fault::StallAt(0));
    let before = proxies[0].suffered();
    let mut numbers = 0..;
    let mut ask_next = async || {
        assert_eq!(ask(&fleet, &chat(numbers.next().unwrap())).await.status, 200);
    };
    while proxies[0].suffered() == before {
        ask_next().await;
    }
    // Its ids, and once it is doubted its health, which it may think about for good.
    while proxies[0].suffered() < before + 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..6 {
        ask_next().await;
    }
    assert_eq!(proxies[0].suffered(), before + 2, "it was asked again though another one answers");
    fleet.stop().await;
}
