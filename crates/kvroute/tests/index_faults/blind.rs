//! A worker that should publish events and does not.

use std::time::Duration;

use kvroute_sim::{EventEndpoint, Faults, SimConfig};
use kvroute_testkit::{Fleet, server_config};

use super::asking::{COMPLETIONS, ask, body, engine, prompt, rank, until_state};

/// From the end of the first request that must have stored a block.
const MUST_BE_KNOWN_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_worker_that_stores_and_does_not_publish_is_blind_and_an_idle_one_is_not() {
    let silent = SimConfig { faults: Faults { silent: true, ..Faults::default() }, ..engine() };
    let fleet = Fleet::start(vec![silent.clone(), silent], "kv").await;
    let busy = ask(&fleet, &prompt(1, 40)).await.worker;
    let is_busy = |engine: &kvroute_sim::SimEngine| engine.address().to_string() == busy;
    let busy = fleet.engines.iter().position(is_busy).unwrap();

    let known = tokio::time::timeout(MUST_BE_KNOWN_WITHIN, until_state(&fleet, busy, "blind")).await;
    let known = known.unwrap_or_else(|_| panic!("never blind"));
    assert!(known["source_reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{known}");
    assert_eq!(rank(&fleet, 1 - busy).await["source_state"], "exact", "nothing is wrong with an idle engine");

    // It publishes again, and has forgotten nothing of what it said.
    for engine in &fleet.engines {
        engine
            .set_faults(Faults { once: Some(kvroute_sim::Incident::Reset), ..Faults::default() })
            .await
            .unwrap();
    }
    until_state(&fleet, busy, "exact").await;
    fleet.stop().await;
}

/// A router that joins late without a replay socket knows nothing of a warm cache, and an engine that does not report
/// its reuse does not tell either: that no event comes then proves nothing.
#[tokio::test]
async fn a_warm_engine_that_reports_nothing_was_called_silent() {
    let quiet = SimConfig {
        kv_replay: EventEndpoint::None,
        faults: Faults { no_report: true, ..Faults::default() },
        ..engine()
    };
    let fleet = Fleet::start_unfollowed(vec![quiet], |urls| server_config(urls, "kv")).await;
    let warm = prompt(1, 40);
    let url = format!("{}{COMPLETIONS}", fleet.engines[0].url());
    assert_eq!(fleet.client.post(&url, &body(&warm)).await.status, 200);
    let urls = [fleet.engines[0].url()];
    let fleet = fleet.restart_router(server_config(&urls, "kv")).await;
    assert_eq!(fleet.client.post(&fleet.data(COMPLETIONS), &body(&warm)).await.status, 200);
    tokio::time::sleep(MUST_BE_KNOWN_WITHIN).await;
    assert_eq!(rank(&fleet, 0).await["source_state"], "degraded");
    fleet.stop().await;
}
