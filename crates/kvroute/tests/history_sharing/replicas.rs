//! Several routers in front of the same engines.

use kvroute_server::{ServeConfig, Server};
use kvroute_sim::SimEngine;
use kvroute_testkit::{Answer, Client, Exposition, Fleet, server_config};
use serde_json::Value;

use super::asking::{engine, entries, with_history};
use super::server::Server as NatsServer;

/// A router that shares its history over a server.
pub(crate) fn sharing(urls: &[String], nats: &NatsServer) -> ServeConfig {
    let mut config = server_config(urls, "kv");
    with_history(&mut config.router.pools[0]);
    config.router.cluster.nats = Some(nats.url());
    config.router.cluster.replica_sync = true;
    config
}

/// Two engines, and a router for each configuration; the first one owns the engines.
pub(crate) async fn start(configs: Vec<impl FnOnce(&[String]) -> ServeConfig>) -> Vec<Fleet> {
    let mut configs = configs.into_iter();
    let first = Fleet::start_with(vec![engine(), engine()], configs.next().unwrap()).await;
    let urls = urls(&first);
    let mut routers = vec![first];
    for config in configs {
        routers.push(behind(&urls, config(&urls)).await);
    }
    routers
}

/// Another router for the same engines.
pub(crate) async fn behind(urls: &[String], config: ServeConfig) -> Fleet {
    let server = Server::start(config).await.unwrap();
    let router = Fleet { engines: Vec::new(), server, client: Client::default() };
    let is_ready = |worker: &&Value| worker["state"] == "ready";
    let ready = |answer: &Answer| answer.json().as_array().unwrap().iter().filter(is_ready).count();
    router.client.until(&router.admin("/api/workers"), |answer| ready(answer) == urls.len()).await;
    router
}

/// Addresses of a router's own engines.
pub(crate) fn urls(router: &Fleet) -> Vec<String> {
    router.engines.iter().map(SimEngine::url).collect()
}

/// The same number of routers that all share, once they know of each other.
pub(crate) async fn sharing_routers(nats: &NatsServer, count: usize) -> Vec<Fleet> {
    let routers = start((0..count).map(|_| |urls: &[String]| sharing(urls, nats)).collect()).await;
    for router in &routers {
        until(router, |scrape| is(scrape, "on") && peers(scrape) == count as f64 - 1.0).await;
    }
    routers
}

pub(crate) async fn stop(mut routers: Vec<Fleet>) {
    while let Some(router) = routers.pop() {
        router.stop().await;
    }
}

/// Waits until a router's metrics satisfy a condition.
pub(crate) async fn until(router: &Fleet, holds: impl Fn(&Exposition) -> bool) -> Exposition {
    let answer = router
        .client
        .until(&router.admin("/metrics"), |answer| holds(&Exposition::parse(&answer.text())))
        .await;
    Exposition::parse(&answer.text())
}

/// Waits until a router's history holds so many blocks.
pub(crate) async fn until_entries(router: &Fleet, blocks: u64) {
    let holds = |answer: &Answer| answer.json()["models"][0]["history"]["blocks"] == blocks;
    router.client.until(&router.admin("/api/funnel?window=all"), holds).await;
    assert_eq!(entries(router).await, blocks);
}

/// Whether this is the state of the sharing, and no other one is.
pub(crate) fn is(scrape: &Exposition, state: &str) -> bool {
    let states = scrape.family("kvroute_history_sharing");
    states.iter().all(|(labels, value)| *value == f64::from(labels["state"] == state)) && !states.is_empty()
}

pub(crate) fn peers(scrape: &Exposition) -> f64 {
    scrape.sum("kvroute_cluster_peers", &[]).unwrap()
}

/// Messages of the sharing, by direction and result.
pub(crate) fn messages(scrape: &Exposition, direction: &str, result: &str) -> f64 {
    let labels = [("direction", direction), ("result", result)];
    scrape.sum("kvroute_history_sync_messages_total", &labels).unwrap_or_default()
}

pub(crate) fn dropped(scrape: &Exposition) -> f64 {
    scrape.sum("kvroute_history_sync_dropped_total", &[]).unwrap()
}
