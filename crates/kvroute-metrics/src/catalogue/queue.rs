//! The line in front of a pool: who waits, how long, and who is turned away.

use super::{Kind, Label, MODEL, QueueRefusal, Row, Values, WORKER_TYPE};
use crate::buckets;

const REASON: Label = Label { name: "reason", values: Values::Of(QueueRefusal::VALUES) };

pub(crate) const QUEUE_PENDING: Row = Row {
    name: "dynamo_frontend_router_queue_pending_requests",
    kind: Kind::Gauge,
    labels: &[MODEL, WORKER_TYPE],
    buckets: &[],
    unit: "requests",
    help: "Requests that wait in the router for a worker with room",
    population: "requests in the line in front of the pool now",
    moves: "up when a request has to wait, down when it is placed, refused or given up by its client; 0 at rest",
    zero: "0: nobody waits, which is the rule; exists from the pool's start",
    act: "above zero for long: the pool is too small, or the busy threshold too low",
    differs: "exists in every pool, at zero, whether or not a threshold is set, and with model \"unknown\" for requests \
              that wait for a pool to say what it serves; moves with each request instead of being refreshed now and then; has no label policy_class",
};

pub(crate) const QUEUE_WAIT_SECONDS: Row = Row {
    name: "kvroute_queue_wait_seconds",
    kind: Kind::Histogram,
    labels: &[MODEL],
    buckets: buckets::QUEUE_WAIT_SECONDS,
    unit: "seconds",
    help: "Time a request waited in the router before it was placed; only requests that had to wait",
    population: "requests that had to wait and were placed in the end",
    moves: "when a request that waited is placed; one that was refused or whose client left gives no sample",
    zero: "no sample: nobody had to wait; exists from the pool's start",
    act: "its count beside kvroute_decisions_total: the share of requests that have to wait; long waits: add workers",
    differs: "",
};

pub(crate) const QUEUE_REFUSED: Row = Row {
    name: "kvroute_queue_refused_total",
    kind: Kind::Counter,
    labels: &[MODEL, REASON],
    buckets: &[],
    unit: "requests",
    help: "Requests that the router turned away because no worker had room, by why",
    population: "requests of a recognised model that found no room; not those that no worker could ever serve",
    moves: "with the refusal: full is answered 429, timeout, no_worker and stopping 503",
    zero: "0: nobody was turned away for this reason; every reason exists from the pool's start",
    act: "full: a longer queue only makes clients wait longer, add workers; no_worker: see kvroute_worker_state; \
          stopping: raise server.drain",
    differs: "",
};
