//! Attempts: one dispatch of one request to one worker rank in one phase.

use super::{Close, Kind, Label, MODEL, PHASE, POLICY, Row, Values, texts};

const OUTCOME: Label = Label { name: "outcome", values: Values::Of(&texts!(Close)) };

pub(crate) const BOOKINGS: Row = Row {
    name: "dynamo_component_router_requests_started_total",
    kind: Kind::Counter,
    labels: &[],
    buckets: &[],
    unit: "attempts",
    help: "Attempts that were booked on a worker",
    moves: "when a booking exists",
    act: "more than requests: retries, or several phases a request",
    differs: "",
};

pub(crate) const DISPATCHED_ATTEMPTS: Row = Row {
    name: "dynamo_component_router_requests_total",
    kind: Kind::Counter,
    labels: &[],
    buckets: &[],
    unit: "attempts",
    help: "Attempts that a worker had and that are over, however they ended",
    moves: "when an attempt that was dispatched is closed",
    act: "for client requests and their outcome see kvroute_requests_total",
    differs: "",
};

pub(crate) const ATTEMPTS: Row = Row {
    name: "kvroute_attempts_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL, POLICY, OUTCOME],
    buckets: &[],
    unit: "attempts",
    help: "Attempts by how they ended, dispatched or not",
    moves: "when an attempt is closed",
    act: "failed: look at kvroute_worker_state and the workers' own logs",
    differs: "",
};
