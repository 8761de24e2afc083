//! An engine that restarts at the same addresses.

use std::time::Duration;

use kvroute_sim::{EventEndpoint, Incident, SimConfig};
use kvroute_testkit::{Fleet, server_config};

use super::asking::{ask, engine, prompt, rank, until_blocks, until_state};

/// With events that can be replayed or not. The engine lives at least so long before it restarts.
async fn a_restarted_engine_has_an_empty_cache(config: SimConfig, life: Duration) {
    let fleet = Fleet::start_unfollowed(vec![config], |urls| server_config(urls, "kv")).await;
    // Without replay only a message that arrives makes the source exact: a clear, which stores nothing.
    while rank(&fleet, 0).await["source_state"] != "exact" {
        fleet.engines[0].cause(Incident::Reset).await;
    }
    let prompt = prompt(1, 50);
    ask(&fleet, &prompt).await;
    until_blocks(&fleet, 0, 3).await;
    let warm = ask(&fleet, &prompt).await;
    assert_eq!((warm.predicted, warm.reused), (48, 48));

    tokio::time::sleep(life).await;
    fleet.engines[0].cause(Incident::Restart).await;
    until_blocks(&fleet, 0, 0).await;
    fleet.client.until(&fleet.data("/ready"), |answer| answer.status == 200).await;
    let cold = ask(&fleet, &prompt).await;
    assert_eq!((cold.predicted, cold.reused), (0, 0));
    until_blocks(&fleet, 0, 3).await;
    until_state(&fleet, 0, "exact").await;
    let warm = ask(&fleet, &prompt).await;
    assert_eq!((warm.predicted, warm.reused), (48, 48));
    fleet.stop().await;
}

#[tokio::test]
async fn a_restart_empties_the_rank_at_once_and_its_blocks_come_back() {
    a_restarted_engine_has_an_empty_cache(engine(), Duration::ZERO).await;
}

/// Nothing is published before the first block, so the start time of the process is all that tells.
#[tokio::test]
async fn a_restart_is_noticed_without_a_replay_socket() {
    // Start times that are closer than this are taken for one that is told inexactly.
    const LIFE: Duration = Duration::from_millis(2_200);
    a_restarted_engine_has_an_empty_cache(SimConfig { kv_replay: EventEndpoint::None, ..engine() }, LIFE)
        .await;
}

/// SGLang's first message is a clear.
#[tokio::test]
async fn a_restart_is_noticed_where_the_engine_announces_its_start() {
    a_restarted_engine_has_an_empty_cache(SimConfig { announces_start: true, ..engine() }, Duration::ZERO)
        .await;
}
