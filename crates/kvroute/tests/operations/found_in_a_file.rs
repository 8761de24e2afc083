//! Workers that a file names.

use std::path::Path;
use std::time::Duration;

use kvroute_router::config::{DiscoveryConfig, DiscoveryKind};
use kvroute_server::ServeConfig;
use kvroute_sim::{SimConfig, SimEngine};
use kvroute_testkit::{Fleet, engine, server_config};

use super::admin::shown;
use super::caller::until;
use super::load::Load;

fn found_in(path: &Path) -> impl FnOnce(&[String]) -> ServeConfig {
    let kind = DiscoveryKind::File(path.to_owned());
    move |_urls| {
        let mut config = server_config(&[], "round-robin");
        config.router.pools[0].model = Some(kvroute_core::ModelName::new("sim"));
        config.router.pools[0].discovery = Some(DiscoveryConfig { kind, refresh: Duration::from_secs(30) });
        config
    }
}

fn write(path: &Path, engines: &[&SimEngine]) {
    let lines: String = engines.iter().map(|engine| format!("{}\n", engine.url())).collect();
    std::fs::write(path, lines).unwrap();
}

#[tokio::test]
async fn workers_that_come_and_go_under_load_cost_no_request_and_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workers");
    let (stays, first) = (engine(SimConfig::default()).await, engine(SimConfig::default()).await);
    write(&path, &[&stays, &first]);
    let fleet = Fleet::start_unfollowed(Vec::new(), found_in(&path)).await;
    for url in [stays.url(), first.url()] {
        until("the named workers are ready", async || shown(&fleet, &url).await["state"] == "ready").await;
    }
    let load = Load::on(vec![fleet.data("")]);
    let mut comers = vec![first];
    for _round in 0..3 {
        let comer = engine(SimConfig::default()).await;
        write(&path, &[&stays, &comer]);
        let url = comer.url();
        until("the named worker serves", async || comer.stats().requests > 0).await;
        assert_eq!(shown(&fleet, &url).await["source"], "discovered");
        let gone = comers.pop().unwrap();
        until("the other one has left", async || shown(&fleet, &gone.url()).await.is_null()).await;
        let name = gone.url().trim_start_matches("http://").to_owned();
        until("its series have gone", async || {
            !fleet.client.get(&fleet.admin("/metrics")).await.text().contains(&name)
        })
        .await;
        gone.stop().await;
        comers.push(comer);
    }
    load.end().await;
    assert_eq!(fleet.workers().await.as_array().unwrap().len(), 2);
    let scrape = fleet.at_rest().await;
    let counted = |state| scrape.sum("kvroute_pool_workers", &[("pool", "sim"), ("state", state)]);
    assert_eq!((counted("known"), counted("ready")), (Some(2.0), Some(2.0)));
    assert_eq!(scrape.sum("kvroute_discovery_failing", &[("pool", "sim")]), Some(0.0));
    fleet.stop().await;
    stays.stop().await;
    for comer in comers {
        comer.stop().await;
    }
}

#[tokio::test]
async fn a_file_that_makes_no_sense_keeps_the_workers_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("workers");
    let engine = engine(SimConfig::default()).await;
    write(&path, &[&engine]);
    let fleet = Fleet::start_unfollowed(Vec::new(), found_in(&path)).await;
    let url = engine.url();
    until("the named worker is ready", async || shown(&fleet, &url).await["state"] == "ready").await;
    let state = async || fleet.client.get(&fleet.admin("/api/discovery")).await.json()[0].clone();
    for (text, named) in [
        (format!("{url}\nhttp//b\n"), "line 2: url is \"http//b\""),
        (String::new(), "names no worker; write [] to say that there is none"),
    ] {
        std::fs::write(&path, text).unwrap();
        until("the fault is named", async || {
            state().await["problem"].as_str().unwrap_or_default().contains(named)
        })
        .await;
        assert_eq!(state().await["state"], "failing");
        assert_eq!(shown(&fleet, &url).await["state"], "ready", "it stays");
    }
    std::fs::remove_file(&path).unwrap();
    until("the fault is named", async || {
        state().await["problem"].as_str().unwrap_or_default().contains("cannot be read")
    })
    .await;
    let scrape = fleet.scrape().await;
    assert_eq!(scrape.sum("kvroute_discovery_failing", &[("pool", "sim")]), Some(1.0));
    std::fs::write(&path, "[]").unwrap();
    until("said outright, nobody is left", async || shown(&fleet, &url).await.is_null()).await;
    assert_eq!((&state().await["state"], &state().await["found"]), (&"ok".into(), &0.into()));
    fleet.stop().await;
    engine.stop().await;
}
