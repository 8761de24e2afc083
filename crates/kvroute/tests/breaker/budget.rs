//! How often requests are sent again.

use kvroute_testkit::Fault;

use super::scripted::{Behaviour, Scripted};
use super::world::{ask, attempts, chat, config, fleet_behind, name, refused_retries, retries, worker};

#[tokio::test(flavor = "multi_thread")]
async fn retries_beyond_the_budget_are_refused_and_named() {
    let (fleet, proxies) = fleet_behind(2, |pool| {
        (pool.retries.share, pool.retries.floor) = (0.0, 0.1); // One in ten seconds.
        pool.breaker.enabled = false;
        pool.policy = "round-robin".to_owned();
    })
    .await;
    for proxy in &proxies {
        proxy.set(Fault::ResetAt(0));
    }
    let first = ask(&fleet, &chat(1)).await;
    assert_eq!(first.status, 502);
    assert!(first.text().contains("two workers failed under it"), "{}", first.text());
    let second = ask(&fleet, &chat(2)).await;
    assert_eq!(second.status, 502);
    assert!(second.text().contains("pool.retries lets no more be sent again"), "{}", second.text());
    let scrape = fleet.at_rest().await;
    assert_eq!(retries(&scrape, "broken"), 1);
    assert_eq!([refused_retries(&scrape, "suspect"), refused_retries(&scrape, "budget")], [1, 1]);
    assert_eq!(attempts(&scrape, "failed"), 3);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_sent_again_as_often_as_the_limit_lets_it() {
    for (limit, tries) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        let (fleet, proxies) = fleet_behind(4, |pool| {
            pool.retries.limit = limit;
            pool.health.failures = 1000;
        })
        .await;
        // Not found out by probes: each worker refuses the first request that comes.
        for proxy in &proxies {
            proxy.set(Fault::ResetAt(0));
        }
        for engine in &fleet.engines {
            engine.set_faults(super::world::answers_with(503)).await.unwrap();
        }
        for proxy in &proxies {
            proxy.set(Fault::None);
        }
        assert_eq!(ask(&fleet, &chat(1)).await.status, 503);
        let scrape = fleet.at_rest().await;
        assert_eq!(attempts(&scrape, "failed"), tries, "limit {limit}");
        fleet.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_the_engine_had_closed_cost_its_client_the_answer() {
    let engine = Scripted::start(Behaviour::CloseOnSecondRequest).await;
    let url = engine.url();
    let server = kvroute_server::Server::start(config(std::slice::from_ref(&url), |pool| {
        pool.model = Some(kvroute_core::ModelName::new(super::scripted::MODEL));
    }))
    .await
    .unwrap();
    let fleet =
        kvroute_testkit::Fleet { engines: Vec::new(), server, client: kvroute_testkit::Client::default() };
    super::world::until_state(&fleet, &name(&url), "ready").await;
    let mut asked = 0;
    // Each but the first one on a thread meets a closed connection.
    while retries(&fleet.scrape().await, "stale") < 3 {
        assert!(asked < 1000, "no connection was found closed");
        let mut body = chat(asked);
        body["model"] = serde_json::json!(super::scripted::MODEL);
        assert_eq!(ask(&fleet, &body).await.status, 200);
        asked += 1;
    }
    let scrape = fleet.at_rest().await;
    assert_eq!([attempts(&scrape, "completed"), attempts(&scrape, "failed")], [asked as u64, 0]);
    assert_eq!(worker(&fleet, &name(&url)).await["state"], "ready");
    fleet.stop().await;
}
