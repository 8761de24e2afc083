//! The index survives a restart of the router.

use std::path::Path;

use kvroute_server::ServeConfig;
use kvroute_sim::{Faults, SimEngine};
use kvroute_testkit::{CapturedLog, Fleet, server_config};

use super::asking::{ask, engine, prompt, rank, until_blocks, until_rank, until_state};

fn with_snapshot(urls: &[String], file: &Path) -> ServeConfig {
    let mut config = server_config(urls, "kv");
    config.router.pools[0].index.snapshot = Some(file.to_owned());
    config
}

/// Stops the router and starts it again, while the engine answers no replay: nothing confirms the snapshot, and
/// nothing replaces it.
async fn restarted_unconfirmed(fleet: Fleet, file: &Path) -> Fleet {
    let urls: Vec<_> = fleet.engines.iter().map(SimEngine::url).collect();
    fleet.engines[0].set_faults(Faults { no_replay: true, ..Faults::default() }).await.unwrap();
    fleet.restart_router(with_snapshot(&urls, file)).await
}

#[tokio::test]
async fn what_was_known_is_there_at_once_and_degraded_until_it_is_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index.snapshot");
    let fleet = Fleet::start_with(vec![engine()], |urls| with_snapshot(urls, &file)).await;
    let prompt_kept = prompt(1, 50);
    ask(&fleet, &prompt_kept).await;
    until_blocks(&fleet, 0, 3).await;

    let fleet = restarted_unconfirmed(fleet, &file).await;
    let restored = rank(&fleet, 0).await;
    assert_eq!(
        (&restored["source_state"], &restored["blocks"]),
        (&"degraded".into(), &3.into()),
        "{restored}"
    );
    let warm = ask(&fleet, &prompt_kept).await;
    assert_eq!((warm.predicted, warm.reused), (48, 48));
    assert_eq!(rank(&fleet, 0).await["source_state"], "degraded");

    // A message that arrived during the vain replay could not be placed: what was kept would have to go.
    until_rank(&fleet, 0, |rank| rank["source_reason"] != restored["source_reason"]).await;
    fleet.engines[0].set_faults(Faults::default()).await.unwrap();
    ask(&fleet, &prompt(2, 50)).await;
    until_state(&fleet, 0, "exact").await;
    until_blocks(&fleet, 0, 6).await;
    fleet.stop().await;
}

#[tokio::test]
async fn a_damaged_snapshot_is_refused_by_name_and_the_index_starts_empty() {
    let log = CapturedLog::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.snapshot");
    let fleet = Fleet::start_with(vec![engine()], |urls| with_snapshot(urls, &file)).await;
    ask(&fleet, &prompt(1, 50)).await;
    until_blocks(&fleet, 0, 3).await;

    let urls: Vec<_> = fleet.engines.iter().map(SimEngine::url).collect();
    fleet.engines[0].set_faults(Faults { no_replay: true, ..Faults::default() }).await.unwrap();
    let Fleet { engines, server, client } = fleet;
    server.stop().await;
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let server = kvroute_server::Server::start(with_snapshot(&urls, &file)).await.unwrap();
    let fleet = Fleet { engines, server, client };
    fleet.client.until(&fleet.data("/ready"), |answer| answer.status == 200).await;

    let refused = log.entries(|entry| {
        entry.message.contains("snapshot refused") && entry.field("file") == file.display().to_string()
    });
    assert_eq!(refused.len(), 1);
    assert!(!refused[0].field("why").is_empty());
    assert_eq!(rank(&fleet, 0).await["blocks"], 0);
    let cold = ask(&fleet, &prompt(1, 50)).await;
    assert_eq!((cold.predicted, cold.reused), (0, 48));
    fleet.stop().await;
}
