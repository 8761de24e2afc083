//! Requests: what clients sent and how it went for them.

use super::{Endpoint, Kind, Label, MODEL, PHASE, RequestOutcome, Row, Stage, Values};
use crate::buckets;

const ENDPOINT: Label = Label { name: "endpoint", values: Values::Of(Endpoint::VALUES) };
const OUTCOME: Label = Label { name: "outcome", values: Values::Of(RequestOutcome::VALUES) };
const STAGE: Label = Label { name: "stage", values: Values::Of(Stage::VALUES) };

pub(crate) const REQUESTS: Row = Row {
    name: "kvroute_requests_total",
    kind: Kind::Counter,
    labels: &[MODEL, ENDPOINT, OUTCOME],
    buckets: &[],
    unit: "requests",
    help: "Client requests by how they ended; model is unknown where none was recognised",
    moves: "once a request, when it is over",
    act: "failed: workers; rejected: clients send what the router refuses, or no worker is there",
    differs: "",
};

pub(crate) const FIRST_TOKEN_SECONDS: Row = Row {
    name: "dynamo_component_router_time_to_first_token_seconds",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::FIRST_TOKEN_SECONDS,
    unit: "seconds",
    help: "From a request's headers to its first non-empty token",
    moves: "once a streamed request, at the first token of any phase; a whole response gives no sample",
    act: "high with low prefill load: look at the stages' durations; else add prefill capacity",
    differs: "once a request, not once an attempt",
};

pub(crate) const INTER_TOKEN_SECONDS: Row = Row {
    name: "dynamo_component_router_inter_token_latency_seconds",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::INTER_TOKEN_SECONDS,
    unit: "seconds",
    help: "Mean time between the tokens of one choice",
    moves: "once a choice of a streamed request, at its end: (last - first token) / (tokens - 1)",
    act: "high: the workers' decode batches are too full",
    differs: "always recorded, once a choice; never divided by the tokens of several choices",
};

pub(crate) const OUTPUT_TOKENS: Row = Row {
    name: "dynamo_component_router_output_sequence_tokens",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::OUTPUT_TOKENS,
    unit: "tokens",
    help: "Tokens that a request's client got, over all its choices",
    moves: "once a request, at its end, if above zero",
    act: "the decode demand a request brings",
    differs: "once a request; the single token of a prefill leg is not a sample",
};

pub(crate) const STAGE_REQUESTS: Row = Row {
    name: "dynamo_frontend_stage_requests",
    kind: Kind::Gauge,
    labels: &[STAGE, PHASE],
    buckets: &[],
    unit: "requests",
    help: "Requests that are in a stage now",
    moves: "up when a request enters a stage, down when it leaves it, however it leaves",
    act: "stuck in dispatch: workers accept but do not answer",
    differs: "",
};

pub(crate) const STAGE_SECONDS: Row = Row {
    name: "dynamo_frontend_stage_duration_seconds",
    kind: Kind::Histogram,
    labels: &[STAGE, PHASE],
    buckets: buckets::STAGE_SECONDS,
    unit: "seconds",
    help: "Time a request spent in a stage: preprocess until tokenized, route until booked, dispatch until headers",
    moves: "when a stage is passed; a request that leaves midway gives no sample",
    act: "preprocess: tokenizer; route: selection; dispatch: network and the worker's own queue",
    differs: "carries the phase, and route measures the selection itself",
};
