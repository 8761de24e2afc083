use kvroute_core::{ModelName, WorkerId, WorkerRole};
use kvroute_metrics::{Metrics, MetricsOptions};

use super::*;
use crate::config::{ClusterConfig, WorkerConfig};
use crate::plan::RouterPlan;

fn config(pools: Vec<PoolConfig>) -> RouterConfig {
    RouterConfig { pools, seed: rand::random(), trace_sample: 1.0, cluster: ClusterConfig::default() }
}

/// Nobody listens there.
fn at(host: u8) -> WorkerConfig {
    WorkerConfig::at(format!("http://127.0.0.{host}:1"))
}

fn pool(model: &str, workers: &[u8]) -> PoolConfig {
    let workers = workers.iter().copied().map(at).collect();
    PoolConfig { model: Some(ModelName::new(model)), ..PoolConfig::of_workers(workers) }
}

fn router(pools: Vec<PoolConfig>) -> Router {
    let plan = RouterPlan::new(config(pools)).unwrap();
    Router::start(plan, Metrics::new(&MetricsOptions::default()).unwrap()).unwrap()
}

fn workers(router: &Router) -> Vec<String> {
    router.workers().into_iter().map(|worker| worker.id).collect()
}

#[tokio::test]
async fn what_may_change_counts_from_now_on() {
    let router = router(vec![pool("m", &[2])]);
    let mut new = pool("m", &[2]);
    (new.queue.limit, new.migrations, new.weights.temperature) = (3, 9, 0.5);
    new.aliases = vec!["n".to_owned()];
    let report = router.reload(config(vec![new])).unwrap();
    assert_eq!(
        report.changed,
        ["pool.aliases (of m)", "pool.kv (of m)", "pool.queue (of m)", "pool.migrations (of m)"]
    );
    assert_eq!((report.needs_restart, report.joining, report.leaving), (vec![], vec![], vec![]));
    let pools = router.shared.pools.load();
    let counts = pools[0].config();
    assert_eq!((counts.queue.limit, counts.migrations), (3, 9));
    assert!(pools[0].serves("n") && (counts.weights.temperature - 0.5).abs() < f64::EPSILON);
    router.stop().await;
}

#[tokio::test]
async fn a_configuration_with_a_contradiction_changes_nothing() {
    let router = router(vec![pool("m", &[2])]);
    let mut unknown = pool("m", &[3]);
    (unknown.policy, unknown.migrations) = ("no such".to_owned(), 9);
    assert!(router.reload(config(vec![unknown])).unwrap_err().to_string().contains("no such"));
    let twice = vec![pool("m", &[3]), pool("n", &[3])];
    assert!(router.reload(config(twice)).unwrap_err().to_string().contains("configured twice"));
    assert_eq!(workers(&router), ["127.0.0.2:1"]);
    assert_eq!(router.shared.plans[0].config().migrations, 1);
    router.stop().await;
}

#[tokio::test]
async fn pools_are_known_by_their_models_and_those_that_come_or_go_need_a_restart() {
    let router = router(vec![pool("a", &[2]), pool("b", &[3])]);
    let new = vec![pool("b", &[3, 4]), pool("c", &[5])];
    let report = router.reload(config(new)).unwrap();
    assert_eq!(report.needs_restart, ["the pool of c", "the pool of a"]);
    assert_eq!(report.joining, [WorkerId::new("127.0.0.4:1")]);
    assert_eq!(workers(&router), ["127.0.0.2:1", "127.0.0.3:1", "127.0.0.4:1"], "a keeps its own");
    router.stop().await;
}

#[tokio::test]
async fn a_worker_that_moves_to_another_pool_or_is_described_otherwise_joins_anew() {
    let router = router(vec![pool("a", &[2, 3]), pool("b", &[4])]);
    let mut new = vec![pool("a", &[3]), pool("b", &[4, 2])];
    new[0].workers[0].dp_ranks = Some(2);
    router.reload(config(new)).unwrap();
    let is_settled = || {
        let of = |plan: usize| {
            let mut ids: Vec<_> =
                router.shared.plans[plan].crew.now().iter().map(|worker| worker.config().clone()).collect();
            ids.sort_by_key(WorkerConfig::id);
            ids
        };
        of(0) == [WorkerConfig { dp_ranks: Some(2), ..at(3) }] && of(1) == [at(2), at(4)]
    };
    while !is_settled() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    router.stop().await;
}

#[tokio::test]
async fn a_first_worker_that_hands_prompts_over_waits_for_a_restart() {
    let router = router(vec![pool("m", &[2])]);
    let mut new = pool("m", &[2, 3]);
    new.workers[1].role = WorkerRole::Prefill;
    let report = router.reload(config(vec![new])).unwrap();
    assert!(report.needs_restart[0].contains("127.0.0.3:1"), "{report:?}");
    assert_eq!(workers(&router), ["127.0.0.2:1"]);
    router.stop().await;
}
