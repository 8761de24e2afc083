use kvroute_metrics::{Metrics, MetricsOptions};

use super::*;
use crate::config::{ClusterConfig, PoolConfig, RouterConfig};
use crate::plan::RouterPlan;

/// A roster of one plan, and the plan.
fn roster(workers: &[&str]) -> (Roster, Arc<PoolPlan>, Metrics) {
    let workers = workers.iter().map(|name| at(name)).collect();
    let config = RouterConfig {
        pools: vec![PoolConfig::of_workers(workers)],
        seed: 7,
        trace_sample: 1.0,
        cluster: ClusterConfig::default(),
    };
    let plan = Arc::new(RouterPlan::new(config).unwrap().pools.remove(0));
    (Roster::new(&[Arc::clone(&plan)]), plan, Metrics::new(&MetricsOptions::default()).unwrap())
}

fn at(name: &str) -> WorkerConfig {
    WorkerConfig::at(format!("http://{name}:1"))
}

fn settled(roster: &Roster, metrics: &Metrics) -> Vec<String> {
    let steps = roster.settle(|config| Worker::new(config.clone(), metrics));
    let named = |step: Step| match step {
        Step::Start(post) => format!("start {}", post.worker.id()),
        Step::Leave(post) => format!("leave {}", post.worker.id()),
        Step::Stays(post) => format!("stay {}", post.worker.id()),
    };
    steps.into_iter().map(named).collect()
}

fn names(crew: &[Arc<Worker>]) -> Vec<String> {
    crew.iter().map(|worker| worker.id().to_string()).collect()
}

#[test]
fn a_list_that_somebody_holds_does_not_change() {
    let (roster, plan, metrics) = roster(&["a", "b"]);
    assert_eq!(settled(&roster, &metrics), ["start a:1", "start b:1"]);
    let (held, of_plan) = (roster.all(), plan.crew.now());
    roster.add(&plan, at("c")).unwrap();
    assert_eq!(settled(&roster, &metrics), ["start c:1"]);
    roster.remove(&WorkerId::new("a:1")).unwrap();
    assert_eq!(settled(&roster, &metrics), ["leave a:1"]);
    let leaving = Arc::clone(&held[0]);
    assert!(roster.end(&leaving));
    roster.gone(&leaving);
    assert_eq!((names(&held), names(&of_plan)), (names(&of_plan), vec!["a:1".to_owned(), "b:1".to_owned()]));
    assert_eq!(names(&roster.all()), ["b:1", "c:1"]);
    assert_eq!(names(&plan.crew.now()), ["b:1", "c:1"]);
}

#[test]
fn one_that_leaves_takes_nothing_and_may_be_called_back_until_it_ends() {
    let (roster, plan, metrics) = roster(&["a"]);
    settled(&roster, &metrics);
    let worker = Arc::clone(&roster.all()[0]);
    roster.want(&plan, |wanted| wanted.configure(Vec::new()));
    assert_eq!(settled(&roster, &metrics), ["leave a:1"]);
    assert!(worker.is_draining() && roster.is_leaving(&worker));
    assert_eq!(roster.add(&plan, at("a")), Err(RosterError::Leaving(worker.id().clone())));
    roster.want(&plan, |wanted| wanted.configure(vec![at("a")]));
    assert_eq!(settled(&roster, &metrics), ["stay a:1"]);
    assert!(!worker.is_draining() && !roster.is_leaving(&worker));
    assert!(!roster.end(&worker), "it was called back");
    roster.want(&plan, |wanted| wanted.configure(Vec::new()));
    settled(&roster, &metrics);
    assert!(roster.end(&worker));
    assert!(!roster.end(&worker), "once");
    roster.want(&plan, |wanted| wanted.configure(vec![at("a")]));
    assert_eq!(settled(&roster, &metrics), Vec::<String>::new(), "it is too late");
    roster.gone(&worker);
    assert_eq!(settled(&roster, &metrics), ["start a:1"], "another one of its name");
    assert!(!Arc::ptr_eq(&worker, &roster.all()[0]));
}

#[test]
fn a_drained_worker_stays_drained_when_it_is_called_back() {
    let (roster, plan, metrics) = roster(&["a"]);
    settled(&roster, &metrics);
    let worker = Arc::clone(&roster.all()[0]);
    roster.drain(worker.id(), true).unwrap();
    roster.want(&plan, |wanted| wanted.configure(Vec::new()));
    settled(&roster, &metrics);
    assert_eq!(roster.drain(worker.id(), false).unwrap_err(), RosterError::Leaving(worker.id().clone()));
    roster.want(&plan, |wanted| wanted.configure(vec![at("a")]));
    settled(&roster, &metrics);
    assert!(worker.is_draining());
    roster.drain(worker.id(), false).unwrap();
    assert!(!worker.is_draining());
}

#[test]
fn what_is_unknown_or_there_already_is_named() {
    let (roster, plan, metrics) = roster(&["a"]);
    settled(&roster, &metrics);
    assert_eq!(roster.add(&plan, at("a")), Err(RosterError::Exists(WorkerId::new("a:1"))));
    let unknown = WorkerId::new("b:1");
    assert_eq!(roster.remove(&unknown), Err(RosterError::Unknown(unknown.clone())));
    assert_eq!(roster.drain(&unknown, true).unwrap_err(), RosterError::Unknown(unknown));
}
