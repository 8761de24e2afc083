//! Requests that come before it is known what is served.

use std::net::SocketAddr;

use kvroute_core::ModelName;
use kvroute_router::config::{PoolConfig, WorkerConfig};
use kvroute_testkit::{Exposition, kept_address};

use crate::*;

const UNKNOWN: &str = "unknown";

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

async fn engine_of(model: &str, listen: SocketAddr) -> kvroute_sim::SimEngine {
    engine(SimConfig { listen, model: model.to_owned(), ..SimConfig::default() }).await
}

fn asking(fleet: &Fleet, model: &str) -> JoinHandle<Answer> {
    let (client, url) = (fleet.client.clone(), fleet.data("/v1/chat/completions"));
    let mut body = question(0);
    body["model"] = json!(model);
    tokio::spawn(async move { client.post(&url, &body).await })
}

#[tokio::test]
async fn a_request_waits_for_the_first_worker() {
    let address = kept_address();
    let early = server_config(&[url(address)], "kv");
    let fleet = Fleet::start_unfollowed(Vec::new(), |_| early).await;
    let answer = ask(&fleet, 0, &[]);
    until_pending_for(&fleet, UNKNOWN, 1).await;
    let engine = engine_of("sim", address).await;
    assert_eq!(answer.await.unwrap().status, 200);
    fleet.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn without_any_worker_the_wait_ends_with_503() {
    let mut nowhere = server_config(&["http://127.0.0.1:1".to_owned()], "kv");
    nowhere.router.pools[0].queue.timeout = Duration::from_millis(100);
    nowhere.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let mut named = nowhere.clone();
    named.router.pools[0].model = Some(ModelName::new("sim"));
    for (config, code) in [(nowhere, "not_ready"), (named, "no_worker")] {
        let fleet = Fleet::start_unfollowed(Vec::new(), |_| config).await;
        let refused = ask(&fleet, 0, &[]).await.unwrap();
        assert_eq!((refused.status, &refused.error()["code"]), (503.try_into().unwrap(), &json!(code)));
        assert!(refused.error()["message"].as_str().unwrap().contains("127.0.0.1:1"));
        fleet.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_left_while_it_waited_for_the_first_worker_was_counted_nowhere() {
    let nowhere = server_config(&["http://127.0.0.1:1".to_owned()], "kv");
    let fleet = Fleet::start_unfollowed(Vec::new(), |_| nowhere).await;
    leaves_once(&fleet, until_pending_for(&fleet, UNKNOWN, 1)).await;
    let cancelled = [("model", UNKNOWN), ("outcome", "cancelled")];
    let is_counted =
        |answer: &Answer| Exposition::parse(&answer.text()).count("kvroute_requests_total", &cancelled) == 1;
    fleet.client.until(&fleet.admin("/metrics"), is_counted).await;
    until_pending_for(&fleet, UNKNOWN, 0).await;
    assert_eq!(fleet.scrape().await.count("kvroute_requests_total", &[]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn one_too_many_for_the_first_worker_is_refused_and_counted() {
    let mut nowhere = server_config(&["http://127.0.0.1:1".to_owned()], "kv");
    nowhere.router.pools[0].queue.limit = 1;
    let fleet = Fleet::start_unfollowed(Vec::new(), |_| nowhere).await;
    let waiting = ask(&fleet, 0, &[]);
    until_pending_for(&fleet, UNKNOWN, 1).await;
    assert_eq!(ask(&fleet, 1, &[]).await.unwrap().error()["code"], "not_ready");
    assert_eq!(fleet.scrape().await.count(REFUSED, &[("model", UNKNOWN), ("reason", "no_worker")]), 1);
    assert!(!waiting.is_finished());
    waiting.abort();
    fleet.stop().await;
}

/// Two pools: the workers of one are there, those of the other are not.
async fn half_known(second: SocketAddr, change: impl FnOnce(&mut PoolConfig)) -> Fleet {
    Fleet::start_with(vec![SimConfig::default()], |urls| {
        let mut config = server_config(urls, "kv");
        let mut other = config.router.pools[0].clone();
        other.workers = vec![WorkerConfig::at(url(second))];
        change(&mut other);
        config.router.pools.push(other);
        config
    })
    .await
}

#[tokio::test]
async fn the_model_of_a_pool_that_nobody_had_joined_was_unknown_for_good_beside_another_pool() {
    let address = kept_address();
    let fleet = half_known(address, |_| {}).await;
    let waiting = asking(&fleet, "late");
    until_pending_for(&fleet, UNKNOWN, 1).await;
    assert_eq!(asking(&fleet, "sim").await.unwrap().status, 200, "others do not wait for it");
    let engine = engine_of("late", address).await;
    assert_eq!(waiting.await.unwrap().status, 200);
    let unknown = asking(&fleet, "never").await.unwrap();
    assert_eq!((unknown.status.as_u16(), &unknown.error()["code"]), (404, &json!("model_not_found")));
    fleet.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn what_an_absent_pool_serves_is_waited_for_no_longer_than_the_queue_lets_one_wait() {
    let fleet = half_known(kept_address(), |pool| {
        pool.queue.timeout = Duration::from_millis(100);
    })
    .await;
    let refused = asking(&fleet, "late").await.unwrap();
    assert_eq!((refused.status.as_u16(), &refused.error()["code"]), (503, &json!("not_ready")));
    fleet.stop().await;
}
