use std::time::Duration;

use kvroute_core::{BlockSize, DpRank, ModelName, RankSlot, WorkerRank, WorkerRole};
use kvroute_engine::EngineKind;
use kvroute_metrics::{WorkerState, WorkerType};

use super::*;
use crate::config::{PoolConfig, WorkerConfig};
use crate::fleet::Fleet;
use crate::rank::{Rank, RankParams};
use crate::router::Router;
use crate::router::of_one_pool::router_of;

/// A router whose workers nobody reaches, but that believes the first of them to serve an adapter.
fn router() -> Router {
    let workers = ["http://127.0.0.1:1", "http://127.0.0.2:1"].map(WorkerConfig::at);
    let pool = PoolConfig { model: Some(ModelName::new("base")), ..PoolConfig::of_workers(workers.into()) };
    router_of(pool)
}

fn joins(router: &Router, worker: usize, adapters: &[&str]) {
    let shared = &router.shared;
    let worker = &shared.roster.all()[worker];
    let name = WorkerRank::new(worker.id().clone(), DpRank::new(0));
    let rank = Arc::new(Rank::new(RankParams {
        slot: RankSlot::new(0),
        worker: Arc::clone(worker),
        engine: EngineKind::Vllm,
        role: WorkerRole::Aggregated,
        bootstrap_port: 0,
        ranks_of_worker: 1,
        block_size: BlockSize::DEFAULT,
        metrics: shared.metrics.rank(&name, WorkerType::Decode),
        source: None,
        busy_above: None,
        adapters: adapters.iter().map(|&adapter| adapter.to_owned()).collect(),
        told_load: None,
        name,
    }));
    shared.pools.load()[0].change_fleet(|_| Fleet::of(vec![Arc::clone(&rank)]));
    worker.set_member(true);
}

fn found(router: &Router, model: &str) -> &'static str {
    match router.shared.find_pool(Some(model)).map_err(|error| error.status().as_u16()) {
        Ok(_) => "there",
        Err(404) => "unknown",
        Err(503) => "too early",
        Err(status) => panic!("{status}"),
    }
}

#[tokio::test]
async fn a_name_is_unknown_once_a_worker_has_said_what_its_pool_serves() {
    let router = router();
    assert_eq!([found(&router, "base"), found(&router, "x")], ["there", "too early"]);
    joins(&router, 0, &["x"]);
    assert_eq!(["base", "x", "y"].map(|name| found(&router, name)), ["there", "there", "unknown"]);
    router.stop().await;
}

#[tokio::test]
async fn an_adapter_is_not_unknown_while_its_worker_leaves_to_join_anew() {
    let router = router();
    joins(&router, 0, &["x"]);
    let leaving = &router.shared.roster.all()[1];
    leaving.set_member(true);
    leaving.enter(WorkerState::Unhealthy, "away");
    assert_eq!(found(&router, "y"), "unknown", "nor is it expected of one that is only away");
    leaving.set_member(false);
    assert_eq!(found(&router, "y"), "too early");
    leaving.enter(WorkerState::Starting, "serves another model");
    assert_eq!(found(&router, "y"), "unknown", "it could not join");
    router.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_for_what_may_come_is_counted_when_its_client_leaves() {
    let router = router();
    let body = r#"{"model": "x", "prompt": "a"}"#;
    let request = ClientRequest::parse(kvroute_openai::Endpoint::Completions, body.into()).unwrap();
    let left = tokio::time::timeout(Duration::from_millis(1), router.shared.pool_of(&request)).await;
    assert!(left.is_err());
    let counted =
        "kvroute_requests_total{endpoint=\"/v1/completions\",model=\"unknown\",outcome=\"cancelled\"} 1\n";
    assert!(router.metrics().render().contains(counted));
    router.stop().await;
}
