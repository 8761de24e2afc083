//! Prompts that one worker computes for another, and what is whose fault there.

use std::time::Duration;

use kvroute_core::WorkerRole;
use kvroute_sim::{Faults, Flavour, SimConfig};
use kvroute_testkit::Fleet;

use super::world::{FOR_GOOD, answers_with, ask, break_engine, chat, config, is_open, name, stream};

/// Two workers that compute prompts and two that take over; whoever fails three times in a row is left alone.
async fn fleet(flavour: Flavour) -> Fleet {
    let roles = [WorkerRole::Prefill, WorkerRole::Prefill, WorkerRole::Decode, WorkerRole::Decode];
    let engines = roles.map(|role| SimConfig { flavour, role, ..SimConfig::default() });
    Fleet::start_with(engines.to_vec(), |urls| {
        config(urls, |pool| {
            pool.workers.iter_mut().zip(roles).for_each(|(worker, role)| worker.role = role);
            pool.breaker.failures = 3;
            pool.breaker.share = 1.0;
            pool.breaker.cooldown = FOR_GOOD;
            pool.timeouts.first_byte = Duration::from_secs(60);
        })
    })
    .await
}

async fn assert_only_one_is_left_alone(fleet: &Fleet, broken: usize) {
    let scrape = fleet.at_rest().await;
    for (number, engine) in fleet.engines.iter().enumerate() {
        assert_eq!(
            is_open(&scrape, &name(&engine.url())),
            number == broken,
            "engine {number}, broken {broken}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prefill_worker_that_fails_is_left_alone_and_costs_nobody_an_answer() {
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        let fleet = fleet(flavour).await;
        break_engine(&fleet, 1, answers_with(500)).await;
        for number in 0..24 {
            assert_eq!(ask(&fleet, &chat(number)).await.status, 200, "{flavour:?}");
        }
        assert_only_one_is_left_alone(&fleet, 1).await;
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_take_over_is_found_though_its_partners_are_suspected_too() {
    for flavour in [Flavour::Vllm, Flavour::Sglang] {
        let fleet = fleet(flavour).await;
        break_engine(&fleet, 2, Faults { fail_decode: true, ..Faults::default() }).await;
        for number in 0..24 {
            let answer = ask(&fleet, &stream(number)).await;
            assert!(
                answer.status == 200 && !answer.text().contains("\"error\""),
                "{flavour:?}: {}",
                answer.text()
            );
        }
        assert_only_one_is_left_alone(&fleet, 2).await;
        fleet.stop().await;
    }
}
