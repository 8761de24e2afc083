//! Which attempts a worker had.

use std::time::Duration;

use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Exposition, Fleet};

use crate::asking::Shape;
use crate::scripted::{Conduct, Scripted};

/// Booked, sent, and closed.
fn attempts(scrape: &Exposition) -> (u64, u64, u64) {
    (
        scrape.count("dynamo_component_router_requests_started_total", &[]),
        scrape.count("dynamo_component_router_requests_total", &[]),
        scrape.count("kvroute_attempts_total", &[]),
    )
}

/// The worker computed for a client that left before the head came, and nobody had sent it anything.
#[tokio::test]
async fn an_attempt_whose_client_left_before_the_head_was_never_dispatched() {
    let hanging = SimConfig { faults: Faults { hang: true, ..Faults::default() }, ..SimConfig::default() };
    let fleet = Fleet::start(vec![hanging], "kv").await;
    for shape in Shape::all() {
        let (path, body) = (fleet.data(shape.endpoint.path()), shape.asks("x"));
        let asking = fleet.client.open(&path, &body);
        let is_sent = async {
            let in_dispatch = [("stage", "dispatch")];
            loop {
                let scrape = fleet.scrape().await;
                if scrape.count("dynamo_frontend_stage_requests", &in_dispatch) == 1 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            _ = asking => panic!("a hanging engine answered"),
            () = is_sent => {}
        }
        fleet.at_rest().await;
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(attempts(&scrape), (8, 8, 8));
    assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "cancelled")]), 8);
    fleet.stop().await;
}

#[tokio::test]
async fn an_attempt_whose_worker_could_not_be_reached_was_not_dispatched() {
    let mut worker = Scripted::start(|_, _| Conduct::Answers(200, "{}".to_owned())).await;
    let shape = Shape::all()[0];
    shape.ask(&worker.fleet, "x").await;
    worker.end_worker().await;
    let path = worker.fleet.data(shape.endpoint.path());
    let answer = worker.fleet.client.post(&path, &shape.asks("x")).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (502, &"upstream_broke".into()));
    let scrape = worker.fleet.at_rest().await;
    assert_eq!(attempts(&scrape), (2, 1, 2));
    worker.fleet.stop().await;
}
