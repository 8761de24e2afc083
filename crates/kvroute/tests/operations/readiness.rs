//! What those are told who balance routers: whether requests would be served, where one model of two has nobody.

use kvroute_core::ModelName;
use kvroute_router::config::{PoolConfig, ReadyWhen, WorkerConfig};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{ClosedPort, Fleet, server_config};
use serde_json::{Value, json};

/// A pool for each of two models, whose engines these are.
fn config(urls: &[String], ready: ReadyWhen) -> ServeConfig {
    let mut config = server_config(&urls[..1], "kv");
    let first = &mut config.router.pools[0];
    first.model = Some(ModelName::new("first"));
    let second = PoolConfig {
        model: Some(ModelName::new("second")),
        workers: vec![WorkerConfig::at(&urls[1])],
        ..first.clone()
    };
    config.router.pools.push(second);
    config.ready = ready;
    config
}

fn serving(model: &str) -> SimConfig {
    SimConfig { model: model.to_owned(), ..SimConfig::default() }
}

async fn readiness(fleet: &Fleet) -> (u16, Value) {
    let answer = fleet.client.get(&fleet.data("/ready")).await;
    (answer.status.as_u16(), answer.json())
}

/// Drains an engine's worker, or undrains it.
async fn change(fleet: &Fleet, engine: usize, what: &str) {
    let id = fleet.engines[engine].url().trim_start_matches("http://").replace(':', "%3A");
    let answer = fleet.client.post(&fleet.admin(&format!("/api/workers/{id}/{what}")), &json!({})).await;
    assert!(answer.status.is_success(), "{}", answer.text());
}

#[tokio::test]
async fn a_model_that_nobody_serves_takes_the_others_from_nobody_unless_all_are_wanted() {
    let mut urls = Vec::new();
    let engines = vec![serving("first"), serving("second")];
    let fleet = Fleet::start_with(engines, |of_engines| {
        urls = of_engines.to_vec();
        config(of_engines, ReadyWhen::Any)
    })
    .await;
    let ready = (200, json!({"status": "ready"}));
    assert_eq!(readiness(&fleet).await, ready);
    change(&fleet, 1, "drain").await;
    assert_eq!(readiness(&fleet).await, ready, "the other model is served");
    let all = config(&urls, ReadyWhen::All);
    drop(fleet.server.reload_handle().prepare(&all).unwrap().commit());
    let (status, answer) = readiness(&fleet).await;
    let reason = answer["reason"].as_str().unwrap();
    assert!(status == 503 && reason.contains("second"), "{answer}");
    change(&fleet, 1, "undrain").await;
    assert_eq!(readiness(&fleet).await, ready);

    let any = config(&urls, ReadyWhen::Any);
    drop(fleet.server.reload_handle().prepare(&any).unwrap().commit());
    change(&fleet, 0, "drain").await;
    change(&fleet, 1, "drain").await;
    assert_eq!(readiness(&fleet).await.0, 503, "nothing is served");
    fleet.stop().await;
}

#[tokio::test]
async fn a_pool_whose_workers_never_answered_is_one_of_all_whether_its_model_is_known_or_not() {
    for (ready, model, reason) in [
        (ReadyWhen::Any, Some("second"), Value::Null),
        (ReadyWhen::Any, None, Value::Null),
        (ReadyWhen::All, None, json!("no worker of pool[1] has answered its probe yet")),
        (
            ReadyWhen::All,
            Some("second"),
            json!("no worker of model \"second\" can take this request now; send it again later"),
        ),
    ] {
        let nobody = ClosedPort::take();
        let fleet = Fleet::start_with(vec![serving("first")], |urls| {
            let mut config = config(&[urls[0].clone(), nobody.url()], ready);
            config.router.pools[1].model = model.map(ModelName::new);
            config
        })
        .await;
        let (status, answer) = readiness(&fleet).await;
        assert_eq!(
            (status, &answer["reason"]),
            (if reason.is_null() { 200 } else { 503 }, &reason),
            "{answer}"
        );
        fleet.stop().await;
    }
}
