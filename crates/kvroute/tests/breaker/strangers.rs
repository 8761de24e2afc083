//! Who is not trusted learns nothing of the fleet from what goes wrong.

use std::time::Duration;

use kvroute_router::config::Timeouts;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Answer, Fault, FaultyProxy, Fleet};

use super::world::{ask, break_engine, chat, config, name, stream, until_state};

async fn fleet_of(trusted: bool, limit: fn(&mut Timeouts)) -> (Fleet, FaultyProxy) {
    let (fleet, mut proxies) = Fleet::start_behind(vec![SimConfig::default()], Fault::None, |urls| {
        let mut config = config(urls, |pool| {
            limit(&mut pool.timeouts);
            pool.breaker.enabled = false;
        });
        if !trusted {
            config.trusted.clear();
        }
        config
    })
    .await;
    (fleet, proxies.remove(0))
}

/// What a client got, with the status that it should have and what everybody is told.
type Told = (Answer, u16, &'static str);

/// Every way in which a request can fail here, and at last what is told of readiness.
async fn failures(trusted: bool) -> Vec<(String, Told)> {
    let mut seen = Vec::new();
    let (fleet, proxy) = fleet_of(trusted, |timeouts| timeouts.first_byte = Duration::from_millis(200)).await;
    proxy.set(Fault::StallAt(0));
    let told = (ask(&fleet, &chat(1)).await, 504, "exceeded timeouts.first_byte of 200ms");
    seen.push((name(&proxy.url()), told));
    fleet.stop().await;

    let (fleet, proxy) = fleet_of(trusted, |timeouts| timeouts.idle = Duration::from_millis(200)).await;
    break_engine(&fleet, 0, Faults { stall_after_chunks: Some(1), ..Faults::default() }).await;
    let told = (ask(&fleet, &stream(2)).await, 200, "exceeded timeouts.idle of 200ms");
    seen.push((name(&proxy.url()), told));
    fleet.stop().await;

    let (fleet, proxy) = fleet_of(trusted, |_| {}).await;
    let worker = name(&proxy.url());
    proxy.set(Fault::ResetAt(0));
    seen.push((worker.clone(), (ask(&fleet, &chat(3)).await, 502, "broke before its first byte")));
    proxy.set(Fault::None);
    break_engine(&fleet, 0, Faults { break_after_chunks: Some(1), ..Faults::default() }).await;
    seen.push((worker.clone(), (ask(&fleet, &stream(4)).await, 200, "broke in the middle of its answer")));
    proxy.set(Fault::Refuse);
    seen.push((worker.clone(), (ask(&fleet, &chat(5)).await, 502, "broke before its first byte")));
    until_state(&fleet, &worker, "unhealthy").await;
    seen.push((worker.clone(), (ask(&fleet, &chat(6)).await, 503, "no worker of model")));
    seen.push((worker, (fleet.client.get(&fleet.data("/ready")).await, 503, "no worker of model")));
    fleet.stop().await;
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_told_strangers_the_addresses_of_workers() {
    for (worker, (answer, status, told)) in failures(false).await {
        let text = answer.text();
        assert_eq!(answer.status, status, "{text}");
        assert!(text.contains(told), "{told}: {text}");
        assert!(!text.contains(&worker) && !text.contains("127.0.0.1"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_callers_learn_which_worker_it_was() {
    let mut all = failures(true).await;
    let (worker, (ready, ..)) = all.pop().expect("it is the last one");
    assert!(!ready.text().contains(&worker), "whoever asks for readiness is not known: {}", ready.text());
    for (worker, (answer, _, told)) in all {
        assert!(answer.text().contains(&worker), "{told}: {}", answer.text());
    }
}
