//! What opens a worker's breaker, and what does not.

use std::time::Duration;

use kvroute_sim::Faults;
use kvroute_testkit::Fault;

use super::world::{
    answers_with, ask, attempts, break_engine, chat, fleet, fleet_behind, is_open, name, retries, stream,
    until_state, worker,
};

/// Requests that a worker fails by default before it is left alone.
const FAILURES: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_failed_at_once_was_never_busy_and_drew_the_traffic() {
    let fleet = fleet(3, |_| {}).await;
    break_engine(&fleet, 0, answers_with(500)).await;
    for number in 0..60 {
        assert_eq!(ask(&fleet, &chat(number)).await.status, 200, "another worker makes up for it");
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(attempts(&scrape, "failed"), FAILURES, "it went on drawing requests");
    assert_eq!(retries(&scrape, "error"), FAILURES);
    let broken = name(&fleet.engines[0].url());
    assert!(is_open(&scrape, &broken));
    let told = worker(&fleet, &broken).await;
    assert_eq!(told["state"], "open");
    assert!(told["problem"].as_str().unwrap().contains("it answered with status 500"), "{told}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_open_it_and_the_worker_is_asked_no_more() {
    for fault in [Fault::ResetAt(0), Fault::EarlyEof(0), Fault::Garbage, Fault::ResetAt(20), Fault::Upgrade] {
        let (fleet, proxies) = fleet_behind(2, |_| {}).await;
        proxies[0].set(fault);
        for number in 0..30 {
            assert_eq!(ask(&fleet, &chat(number)).await.status, 200, "{fault:?}");
        }
        let scrape = fleet.at_rest().await;
        assert_eq!(attempts(&scrape, "failed"), FAILURES, "{fault:?}");
        assert!(is_open(&scrape, &name(&proxies[0].url())), "{fault:?}");
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_break_off_open_it() {
    for faults in [
        Faults { break_after_chunks: Some(2), ..Faults::default() },
        Faults { end_after_chunks: Some(2), ..Faults::default() },
    ] {
        let fleet = fleet(2, |_| {}).await;
        break_engine(&fleet, 0, faults.clone()).await;
        for number in 0..30 {
            let answer = ask(&fleet, &stream(number)).await.text();
            assert!(answer.contains("[DONE]") && !answer.contains("\"error\""), "{faults:?}: {answer}");
        }
        let scrape = fleet.at_rest().await;
        assert_eq!(attempts(&scrape, "failed"), FAILURES, "{faults:?}");
        assert!(is_open(&scrape, &name(&fleet.engines[0].url())), "{faults:?}");
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_never_begin_open_it() {
    let fleet = fleet(1, |pool| {
        pool.timeouts.first_byte = Duration::from_millis(100);
        pool.breaker.failures = 2;
    })
    .await;
    break_engine(&fleet, 0, Faults { hang: true, ..Faults::default() }).await;
    for number in 0..2 {
        assert_eq!(ask(&fleet, &chat(number)).await.status, 504);
    }
    assert!(is_open(&fleet.at_rest().await, &name(&fleet.engines[0].url())));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_requests_opened_it_and_took_the_fleet_down() {
    for status in [400, 404, 422, 429] {
        let fleet = fleet(2, |pool| pool.breaker.failures = 1).await;
        for engine in 0..2 {
            break_engine(&fleet, engine, answers_with(status)).await;
        }
        for number in 0..10 {
            assert_eq!(ask(&fleet, &chat(number)).await.status, status, "it is passed on as it is");
        }
        let scrape = fleet.at_rest().await;
        assert_eq!(scrape.count("kvroute_retries_total", &[]), 0, "status {status}");
        for engine in &fleet.engines {
            assert!(!is_open(&scrape, &name(&engine.url())), "status {status}");
        }
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_do_not_open_it() {
    let fleet = fleet(1, |pool| pool.breaker.failures = 1).await;
    let slow = Faults { stall_after_chunks: Some(1), ..Faults::default() };
    break_engine(&fleet, 0, slow).await;
    for number in 0..3 {
        drop(fleet.client.open(&fleet.data("/v1/chat/completions"), &stream(number)).await);
    }
    let scrape = fleet.at_rest().await;
    assert_eq!([attempts(&scrape, "cancelled"), attempts(&scrape, "failed")], [3, 0]);
    assert!(!is_open(&scrape, &name(&fleet.engines[0].url())));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_stops_is_no_fault_of_its_workers() {
    let fleet = fleet(1, |pool| pool.breaker.failures = 1).await;
    break_engine(&fleet, 0, Faults { hang: true, ..Faults::default() }).await;
    let (url, client) = (fleet.data("/v1/chat/completions"), fleet.client.clone());
    let asking = tokio::spawn(async move { client.post(&url, &chat(1)).await });
    let is_sent = |answer: &kvroute_testkit::Answer| {
        kvroute_testkit::Exposition::parse(&answer.text())
            .count("dynamo_component_router_requests_started_total", &[])
            == 1
    };
    fleet.client.until(&fleet.admin("/metrics"), is_sent).await;
    let broken = name(&fleet.engines[0].url());
    until_state(&fleet, &broken, "ready").await;
    fleet.server.stop().await;
    assert_eq!(asking.await.unwrap().status, 503);
    for engine in fleet.engines {
        engine.stop().await;
    }
}
