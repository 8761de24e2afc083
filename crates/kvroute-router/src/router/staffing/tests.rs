use std::collections::BTreeSet;

use super::*;
use crate::config::PoolConfig;
use crate::router::of_one_pool::router_of;

/// Workers that are added one after the other, and of which most are gone at any time.
const WORKERS: u16 = 200;

/// A router that has nobody, of a model that is known.
fn router() -> Router {
    let pool = PoolConfig { model: Some(ModelName::new("m")), ..PoolConfig::of_workers(Vec::new()) };
    router_of(pool)
}

/// Nobody listens there.
fn at(port: u16) -> WorkerConfig {
    WorkerConfig::at(format!("http://127.0.0.2:{port}"))
}

fn names(router: &Router) -> BTreeSet<String> {
    let text = router.exposition();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("process_"));
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn workers_that_come_and_go_leave_no_task_and_no_series() {
    let router = router();
    let (tasks, series) = (router.tasks.len(), names(&router));
    for port in 1..=WORKERS {
        let id = router.add_worker(Some("m"), at(port)).unwrap();
        assert!(names(&router).iter().any(|series| series.contains(id.as_str())));
        router.remove_worker(&id).unwrap();
    }
    until(|| router.workers().is_empty() && router.tasks.len() == tasks).await;
    assert_eq!(names(&router), series);
    router.stop().await;
}

#[tokio::test]
async fn the_pool_is_named_where_there_is_more_than_one() {
    let router = router();
    let other = |model: &str| router.add_worker(Some(model), at(1));
    let unknown = RosterError::UnknownModel { model: "n".to_owned(), served: "m".to_owned() };
    assert_eq!(other("n"), Err(unknown));
    assert_eq!(router.add_worker(None, at(1)), Ok(WorkerId::new("127.0.0.2:1")), "there is only one");
    assert_eq!(other("m"), Err(RosterError::Exists(WorkerId::new("127.0.0.2:1"))));
    router.begin_stop();
    assert_eq!(router.add_worker(None, at(2)), Err(RosterError::Stopping));
    router.stop().await;
}

#[tokio::test]
async fn handing_over_cannot_begin_while_the_router_runs() {
    let router = router();
    let prefill = WorkerConfig { role: WorkerRole::Prefill, ..at(1) };
    assert_eq!(
        router.add_worker(None, prefill),
        Err(RosterError::NoHandover { worker: WorkerId::new("127.0.0.2:1") })
    );
    assert!(router.workers().is_empty());
    router.stop().await;
}
