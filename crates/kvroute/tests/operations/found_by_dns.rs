//! Workers that a name server names.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use kvroute_router::config::{DiscoveryConfig, DiscoveryKind, DnsName};
use kvroute_server::ServeConfig;
use kvroute_sim::{SimConfig, SimEngine};
use kvroute_testkit::{Fleet, engine, server_config};
use serde_json::Value;

use super::caller::until;
use super::load::Load;
use super::name_server::{NameServer, Says};

fn found_by(name: DnsName, server: SocketAddr) -> impl FnOnce(&[String]) -> ServeConfig {
    let kind = DiscoveryKind::Dns { name, is_https: false, server: Some(server) };
    move |_urls| {
        let mut config = server_config(&[], "round-robin");
        config.router.pools[0].model = Some(kvroute_core::ModelName::new("sim"));
        config.router.pools[0].discovery = Some(DiscoveryConfig { kind, refresh: Duration::from_secs(60) });
        config
    }
}

/// A host whose name every system knows, and the engine's port.
fn place(engine: &SimEngine) -> (String, u16) {
    let url = engine.url();
    ("localhost".to_owned(), url.rsplit_once(':').unwrap().1.parse().unwrap())
}

async fn worker(fleet: &Fleet, port: u16) -> Value {
    let workers = fleet.workers().await;
    let is_meant = |worker: &&Value| worker["url"].as_str().unwrap().ends_with(&format!(":{port}"));
    workers.as_array().unwrap().iter().find(is_meant).cloned().unwrap_or(Value::Null)
}

async fn state(fleet: &Fleet) -> Value {
    fleet.client.get(&fleet.admin("/api/discovery")).await.json()[0].clone()
}

#[tokio::test]
async fn services_that_come_and_go_cost_no_request() {
    let (first, second) = (engine(SimConfig::default()).await, engine(SimConfig::default()).await);
    let (one, two) = (place(&first), place(&second));
    let server = NameServer::start(Says::Services(vec![one.clone()], 1)).await;
    let name = DnsName::Service("_http._tcp.engines.test.".to_owned());
    let fleet = Fleet::start_unfollowed(Vec::new(), found_by(name, server.address)).await;
    until("the first is ready", async || worker(&fleet, one.1).await["state"] == "ready").await;
    let load = Load::on(vec![fleet.data("")]);
    server.says(Says::Services(vec![one.clone(), two.clone()], 1));
    until("the second serves", async || second.stats().requests > 0).await;
    server.says(Says::Services(vec![two.clone()], 1));
    until("the first has left", async || worker(&fleet, one.1).await.is_null()).await;
    load.more(8).await;
    load.end().await;
    fleet.at_rest().await;
    fleet.stop().await;
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_server_that_fails_keeps_the_workers_and_is_named() {
    let engine = engine(SimConfig::default()).await;
    let port = place(&engine).1;
    let addresses = || Says::Addresses(vec![Ipv4Addr::LOCALHOST], 1);
    let server = NameServer::start(addresses()).await;
    let fleet = Fleet::start_unfollowed(
        Vec::new(),
        found_by(DnsName::Host("engines.test.".to_owned(), port), server.address),
    )
    .await;
    until("the worker is ready", async || worker(&fleet, port).await["state"] == "ready").await;
    for says in [Says::Fault, Says::Nobody, Says::Silence] {
        let told = format!("{says:?}");
        server.says(says);
        until(&format!("{told} is seen"), async || state(&fleet).await["state"] == "failing").await;
        assert_eq!(worker(&fleet, port).await["state"], "ready", "{told}: it stays");
        let metrics = fleet.scrape().await;
        assert_eq!(metrics.sum("kvroute_discovery_failing", &[("pool", "sim")]), Some(1.0), "{told}");
        server.says(addresses());
        until("it is well again", async || state(&fleet).await["state"] == "ok").await;
    }
    fleet.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn an_answer_is_not_asked_for_again_while_it_holds() {
    let engine = engine(SimConfig::default()).await;
    let port = place(&engine).1;
    let server = NameServer::start(Says::Addresses(vec![Ipv4Addr::LOCALHOST], 3600)).await;
    let fleet = Fleet::start_unfollowed(
        Vec::new(),
        found_by(DnsName::Host("engines.test.".to_owned(), port), server.address),
    )
    .await;
    until("the worker is ready", async || worker(&fleet, port).await["state"] == "ready").await;
    let asked = server.asked();
    let age = async || state(&fleet).await["age_seconds"].as_f64().unwrap();
    until("more time than the shortest pause has passed", async || age().await > 2.5).await;
    assert_eq!(server.asked(), asked, "both kinds of addresses, once");
    fleet.stop().await;
    engine.stop().await;
}
