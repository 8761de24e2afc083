//! Attempts: one dispatch of one request to one worker rank in one phase.

use super::{Close, Kind, Label, MODEL, PHASE, POLICY, RetryReason, RetryRefusal, Row, Values, texts};

const OUTCOME: Label = Label { name: "outcome", values: Values::Of(&texts!(Close)) };
const RETRY_REASON: Label = Label { name: "reason", values: Values::Of(RetryReason::VALUES) };
const RETRY_REFUSAL: Label = Label { name: "reason", values: Values::Of(RetryRefusal::VALUES) };

pub(crate) const BOOKINGS: Row = Row {
    name: "dynamo_component_router_requests_started_total",
    kind: Kind::Counter,
    labels: &[],
    buckets: &[],
    unit: "attempts",
    help: "Attempts that were booked on a worker",
    population: "every attempt of every model and phase; a retry is a further attempt",
    moves: "when a booking exists",
    zero: "0: nothing was booked yet; never absent",
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
    population: "attempts of every model and phase that were sent to their worker and are over; one whose worker \
                 could not be reached is none of them",
    moves: "when an attempt that was dispatched is closed",
    zero: "0 beside bookings: they still run, or no worker could be reached; never absent",
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
    population: "every attempt that is over; bookings less these are those that run",
    moves: "when an attempt is closed",
    zero: "0: no attempt ended so; every outcome exists from the pool's start",
    act: "failed: look at kvroute_worker_state and the workers' own logs",
    differs: "",
};

pub(crate) const RETRIES: Row = Row {
    name: "kvroute_retries_total",
    kind: Kind::Counter,
    labels: &[MODEL, RETRY_REASON],
    buckets: &[],
    unit: "attempts",
    help: "Attempts that follow a failed one of the same request, by what failed",
    population: "attempts after the first one of a request, and with reason stale further tries within one attempt; requests \
                 that were not sent again are in kvroute_retries_refused_total",
    moves: "when the further attempt is booked; stale: when the same worker is asked once more",
    zero: "0: no request was sent again for this reason; every reason exists from the pool's start",
    act: "connect: a worker is down or its address wrong; broken: a worker dies of requests, look at its log; unavailable, \
          error: look at the worker's log; stale: the engine closes idle connections sooner than after 4 s",
    differs: "",
};

pub(crate) const RETRIES_REFUSED: Row = Row {
    name: "kvroute_retries_refused_total",
    kind: Kind::Counter,
    labels: &[MODEL, RETRY_REFUSAL],
    buckets: &[],
    unit: "requests",
    help: "Requests that a worker failed and that were not sent to another one though they might have been, by why",
    population: "failures that allow another attempt; one that forbids it, such as a time limit, is not counted here",
    moves: "when the failed attempt is the last one",
    zero: "0: none was refused for this reason; every reason exists from the pool's start",
    act: "budget: many workers fail at once, look at kvroute_worker_state; suspect: requests kill engines, look at their \
          logs; no_worker: add workers",
    differs: "",
};
