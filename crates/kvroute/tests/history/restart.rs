//! The history survives a restart of the router.

use std::path::Path;

use kvroute_server::{ServeConfig, Server};
use kvroute_sim::SimEngine;
use kvroute_testkit::{CapturedLog, Fleet, server_config};
use tokio::task::JoinSet;

use super::asking::{BLOCK, ask, body, engine, entries, observed, prompt, with_history};

fn kept_in(urls: &[String], file: &Path) -> ServeConfig {
    let mut config = server_config(urls, "kv");
    with_history(&mut config.router.pools[0]);
    config.router.pools[0].history.snapshot = Some(file.to_owned());
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn under_load_what_was_known_is_known_to_the_first_request_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.snap");
    let fleet = Fleet::start_with(vec![engine(), engine()], |urls| kept_in(urls, &file)).await;
    let urls: Vec<_> = fleet.engines.iter().map(SimEngine::url).collect();
    assert_eq!(ask(&fleet, &prompt(1, 6 * BLOCK)).await, 0);
    let (client, address) = (fleet.client.clone(), fleet.data("/v1/completions"));
    let mut load = JoinSet::new();
    for sender in 2..6 {
        let (client, address) = (client.clone(), address.clone());
        load.spawn(async move {
            for number in 0.. {
                let request = body(&prompt(sender * 1000 + number, 4 * BLOCK));
                if client.post(&address, &request).await.status != 200 {
                    return;
                }
            }
        });
    }
    while entries(&fleet).await < 200 {
        tokio::task::yield_now().await;
    }
    let fleet = fleet.restart_router(kept_in(&urls, &file)).await;
    load.shutdown().await;
    assert!(entries(&fleet).await >= 200);
    assert_eq!(ask(&fleet, &prompt(1, 6 * BLOCK)).await, 6 * BLOCK);
    let oldest = fleet.client.get(&fleet.admin("/api/funnel?window=all")).await.json();
    assert!(oldest["models"][0]["history"]["oldest_entry_age_seconds"].as_f64().unwrap() > 0.0, "{oldest}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_refused_by_name_and_the_history_starts_empty() {
    let log = CapturedLog::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.snap");
    let fleet = Fleet::start_with(vec![engine()], |urls| kept_in(urls, &file)).await;
    ask(&fleet, &prompt(1, 6 * BLOCK)).await;
    let Fleet { engines, server, client } = fleet;
    server.stop().await;
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let urls: Vec<_> = engines.iter().map(SimEngine::url).collect();
    let server = Server::start(kept_in(&urls, &file)).await.unwrap();
    let fleet = Fleet { engines, server, client };
    fleet.client.until(&fleet.data("/ready"), |answer| answer.status == 200).await;
    let refused = log.entries(|entry| entry.message.contains("history snapshot refused"));
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].field("file"), file.display().to_string());
    assert_eq!(ask(&fleet, &prompt(1, 6 * BLOCK)).await, 0);
    assert_eq!(observed(&fleet).await.complete, 1);
    fleet.stop().await;
}
