//! Requests that a worker refuses: whose fault it was shows in the outcome.

use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::Fleet;

use crate::asking::{Shape, outcomes};

#[tokio::test]
async fn a_refusal_is_the_clients_fault_or_the_workers_by_its_status() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let refusals =
        [(400, "rejected"), (422, "rejected"), (429, "rejected"), (500, "failed"), (503, "failed")];
    for (status, _) in refusals {
        let faults = Faults { refuse_status: Some(status), ..Faults::default() };
        fleet.engines[0].set_faults(faults).await.unwrap();
        for shape in Shape::all() {
            let body = shape.asks("x");
            let answer = fleet.client.post(&fleet.data(shape.endpoint.path()), &body).await;
            assert_eq!(answer.status, status, "{shape:?}");
            assert_eq!(answer.error()["type"], "InjectedFault", "the engine's own words");
        }
    }
    let scrape = fleet.at_rest().await;
    let requests =
        |outcome| scrape.count("kvroute_requests_total", &[("model", "sim"), ("outcome", outcome)]);
    assert_eq!((requests("rejected"), requests("failed"), requests("completed")), (3 * 8, 2 * 8, 0));
    assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "failed")]), 5 * 8);
    assert_eq!(outcomes(&scrape, "unfinished"), 5 * 8);
    fleet.stop().await;
}
