use std::collections::BTreeSet;

use kvroute_core::{BlockSize, DpRank, Phase, RankSlot, Tokens, WorkerRank, WorkerRole};
use kvroute_engine::EngineKind;
use kvroute_metrics::{Metrics, MetricsOptions, WorkerState, WorkerType};
use kvroute_select::{PolicyOptions, Selector, policy};

use super::*;
use crate::config::{BusyThreshold, WorkerConfig};
use crate::hints::Pin;
use crate::lane::Home;
use crate::rank::{Rank, RankParams};
use crate::worker::Worker;

/// A pool of workers `a`, `b` and `c`, none of which is busy. Those that are there take requests.
struct Pool {
    metrics: Metrics,
    seats: Seats,
}

// === impl Pool ===

impl Pool {
    fn new() -> Self {
        let metrics = Metrics::new(&MetricsOptions::default()).unwrap();
        let policy = policy::by_name("kv", &PolicyOptions::default()).unwrap();
        let desk = Arc::new(Desk::new(Selector::new(policy, Vec::new()), 7));
        let workers = ["a", "b", "c"].map(|name| {
            let worker = Worker::new(WorkerConfig::at(format!("http://{name}")), &metrics);
            worker.enter(WorkerState::Ready, "");
            Arc::new(worker)
        });
        let seats = Seats::new(desk, Arc::default(), Arc::new(Crew::of(workers.to_vec())));
        Self { metrics, seats }
    }

    /// From now on these are its members, with their adapters, in slots from `first_slot` on.
    fn has(&self, first_slot: u32, members: &[(&str, &[&str])]) {
        let ranks = members.iter().zip(first_slot..).map(|((name, adapters), slot)| {
            Arc::new(self.rank(&self.worker(name), RankSlot::new(slot), adapters))
        });
        self.seats.fleet.store(Arc::new(Fleet::of(ranks.collect())));
        for worker in &*self.seats.crew.now() {
            worker.set_member(members.iter().any(|(name, _)| is_named(worker, name)));
        }
    }

    fn worker(&self, name: &str) -> Arc<Worker> {
        self.seats.crew.now().iter().find(|worker| is_named(worker, name)).cloned().unwrap()
    }

    fn rank(&self, worker: &Arc<Worker>, slot: RankSlot, adapters: &[&str]) -> Rank {
        let name = WorkerRank::new(worker.id().clone(), DpRank::new(0));
        Rank::new(RankParams {
            slot,
            worker: Arc::clone(worker),
            engine: EngineKind::Vllm,
            role: WorkerRole::Aggregated,
            bootstrap_port: 0,
            ranks_of_worker: 1,
            block_size: BlockSize::DEFAULT,
            metrics: self.metrics.rank(&name, WorkerType::Decode),
            source: None,
            busy_above: Some(Tokens::ZERO),
            adapters: adapters.iter().map(|&adapter| adapter.to_owned()).collect(),
            told_load: None,
            name,
        })
    }

    /// Whether such a request is let in, and whether only to be told that it comes in vain.
    fn look(&self, lane: &Lane) -> (bool, bool) {
        (self.seats.has_room(lane), self.seats.is_hopeless(lane))
    }

    fn home(&self, name: &str) -> Option<Home> {
        let rank = WorkerRank::new(self.worker(name).id().clone(), DpRank::new(0)).key();
        Some(Home { rank, away: "away" })
    }
}

fn is_named(worker: &Worker, name: &str) -> bool {
    worker.config().url == format!("http://{name}")
}

fn pin(pool: &Pool, name: &str) -> Option<Pin> {
    Some(Pin { worker: pool.worker(name).id().to_string(), dp_rank: None })
}

fn adapter(name: &str) -> Option<Arc<str>> {
    Some(name.into())
}

const fn any() -> Lane {
    Lane::any(Phase::Aggregated)
}

const LET_IN: (bool, bool) = (true, false);
const WAITS: (bool, bool) = (false, false);
const IN_VAIN: (bool, bool) = (true, true);

#[test]
fn a_request_in_line_was_judged_by_the_slots_of_its_arrival() {
    let pool = Pool::new();
    let pinned = Lane { pin: pin(&pool, "a"), ..any() };
    pool.has(0, &[("a", &[]), ("b", &[])]);
    pool.worker("a").enter(WorkerState::Unhealthy, "away");
    assert_eq!(pool.look(&pinned), WAITS);
    pool.has(0, &[("b", &[])]);
    assert_eq!(pool.look(&pinned), WAITS, "its slot is another one's");
    pool.worker("a").enter(WorkerState::Ready, "");
    pool.has(5, &[("b", &[]), ("a", &[])]);
    assert_eq!(pool.look(&pinned), LET_IN, "it has joined anew, in another slot");
}

#[test]
fn room_for_an_adapter_is_where_the_fleet_of_the_moment_serves_it() {
    let pool = Pool::new();
    let lane = Lane { adapter: adapter("x"), ..any() };
    pool.has(0, &[("a", &["x"]), ("b", &["y"])]);
    pool.worker("a").enter(WorkerState::Unhealthy, "away");
    assert_eq!((pool.look(&lane), pool.look(&any())), (WAITS, LET_IN));
    pool.has(0, &[("a", &["x"]), ("b", &["x"])]);
    assert_eq!(pool.look(&lane), LET_IN);
}

#[test]
fn an_adapter_is_known_as_long_as_a_rank_of_the_fleet_serves_it() {
    let pool = Pool::new();
    let names = || pool.seats.fleet.load().adapters.clone();
    pool.has(0, &[("a", &["x", "y"]), ("b", &["y"])]);
    assert_eq!(names(), BTreeSet::from(["x".to_owned(), "y".to_owned()]));
    pool.has(0, &[("b", &["y"])]);
    assert_eq!(names(), BTreeSet::from(["y".to_owned()]));
}

#[test]
fn a_worker_that_has_yet_to_say_what_it_serves_is_waited_for() {
    let pool = Pool::new();
    let lanes = [
        Lane { adapter: adapter("x"), ..any() },
        Lane { pin: pin(&pool, "c"), ..any() },
        Lane { pin: pin(&pool, "c"), adapter: adapter("x"), ..any() },
    ];
    pool.has(0, &[("a", &[]), ("b", &[])]);
    for lane in &lanes {
        assert_eq!(pool.look(lane), WAITS, "{lane:?}");
    }
    pool.has(0, &[("a", &[]), ("b", &[]), ("c", &["z"])]);
    let looks = lanes.each_ref().map(|lane| pool.look(lane));
    assert_eq!(looks, [IN_VAIN, LET_IN, IN_VAIN]);
}

#[test]
fn nobody_else_helps_a_request_that_is_bound_to_a_worker_without_its_adapter() {
    let pool = Pool::new();
    pool.has(0, &[("a", &["x"]), ("b", &[])]);
    let pinned = Lane { pin: pin(&pool, "b"), adapter: adapter("x"), ..any() };
    let at_home = Lane { home: pool.home("b"), adapter: adapter("x"), ..any() };
    assert_eq!([pool.look(&pinned), pool.look(&at_home)], [IN_VAIN, IN_VAIN], "whether c comes or not");
}

#[test]
fn a_home_is_waited_for_while_it_belongs_to_the_pool() {
    let pool = Pool::new();
    let at_home = Lane { home: pool.home("b"), ..any() };
    pool.has(0, &[("a", &[]), ("b", &[])]);
    assert_eq!(pool.look(&at_home), LET_IN);
    pool.worker("b").enter(WorkerState::Unhealthy, "away");
    assert_eq!(pool.look(&at_home), WAITS);
    pool.has(0, &[("a", &[])]);
    assert_eq!(pool.look(&at_home), LET_IN, "it has left");
}

#[test]
fn a_rank_is_busy_by_the_threshold_of_the_moment() {
    let pool = Pool::new();
    let rank = pool.rank(&pool.worker("a"), RankSlot::new(0), &[]);
    rank.limit(BusyThreshold::Auto);
    assert_eq!(rank.busy_above(), BusyThreshold::Auto.of(None), "its engine does not tell");
    rank.computes(Some(Tokens::new(100)));
    rank.limit(BusyThreshold::Auto);
    assert_eq!(rank.busy_above(), Some(Tokens::new(800)));
    rank.limit(BusyThreshold::Tokens(Tokens::new(5)));
    assert_eq!(rank.busy_above(), Some(Tokens::new(5)));
    rank.limit(BusyThreshold::Off);
    assert_eq!(rank.busy_above(), None);
}
