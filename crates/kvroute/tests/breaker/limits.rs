//! Each limit of time fires by its own name and tells its value.

use std::time::Duration;

use kvroute_router::config::{PoolConfig, Timeouts};
use kvroute_sim::Faults;
use kvroute_testkit::{Fault, Fleet};
use serde_json::Value;

use super::world::{ask, break_engine, chat, fleet, fleet_behind, stream};

const LONG: Duration = Duration::from_secs(3600);

fn only(pool: &mut PoolConfig, set: impl FnOnce(&mut Timeouts)) {
    pool.timeouts = Timeouts { connect: LONG, first_byte: LONG, idle: LONG, total: LONG };
    set(&mut pool.timeouts);
}

async fn fleet_with(set: impl FnOnce(&mut Timeouts)) -> Fleet {
    fleet(1, |pool| only(pool, set)).await
}

async fn assert_fires(fleet: &Fleet, body: &Value, limit: &str) {
    let answer = ask(fleet, body).await;
    let text = answer.text();
    assert!(text.contains(&format!("exceeded timeouts.{limit} of 150ms")), "{limit}: {text}");
    assert!(text.contains("upstream_timeout"), "{text}");
}

fn short(limit: &mut Duration) {
    *limit = Duration::from_millis(150);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_begin() {
    let fleet = fleet_with(|timeouts| short(&mut timeouts.first_byte)).await;
    break_engine(&fleet, 0, Faults { hang: true, ..Faults::default() }).await;
    for body in [chat(1), stream(2)] {
        assert_fires(&fleet, &body, "first_byte").await;
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_answer_that_stops_in_its_middle() {
    let (fleet, proxies) = fleet_behind(1, |pool| only(pool, |timeouts| short(&mut timeouts.idle))).await;
    assert_eq!(ask(&fleet, &chat(1)).await.status, 200);
    proxies[0].set(Fault::StallAt(400)); // Behind the head, before the end of the body.
    assert_fires(&fleet, &chat(1), "idle").await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_stops_in_its_middle() {
    let fleet = fleet_with(|timeouts| short(&mut timeouts.idle)).await;
    break_engine(&fleet, 0, Faults { stall_after_chunks: Some(1), ..Faults::default() }).await;
    assert_fires(&fleet, &stream(1), "idle").await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_for_the_first_token_was_taken_for_a_pause_between_two() {
    let fleet = fleet_with(|timeouts| {
        short(&mut timeouts.first_byte);
        timeouts.idle = Duration::ZERO; // Shorter than whatever is left of the other one.
    })
    .await;
    break_engine(&fleet, 0, Faults { stall_after_chunks: Some(0), ..Faults::default() }).await;
    assert_fires(&fleet, &stream(1), "first_byte").await;
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_takes_too_long_as_a_whole() {
    let fleet = fleet_with(|timeouts| short(&mut timeouts.total)).await;
    break_engine(&fleet, 0, Faults { hang: true, ..Faults::default() }).await;
    assert_fires(&fleet, &chat(1), "total").await;
    break_engine(&fleet, 0, Faults { stall_after_chunks: Some(1), ..Faults::default() }).await;
    assert_fires(&fleet, &stream(2), "total").await;
    let name = super::world::name(&fleet.engines[0].url());
    assert_eq!(super::world::worker(&fleet, &name).await["state"], "ready", "a long answer is no fault");
    fleet.stop().await;
}
