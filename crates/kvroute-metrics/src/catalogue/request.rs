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
    population: "requests to the routes that are served by workers, and to paths that nobody serves; not health \
                 and model lists",
    moves: "once a request, when it is over",
    zero: "0: no request ended so; every endpoint and outcome exists from the pool's start",
    act: "failed: workers; rejected: clients send what the router or a worker refuses (4xx), or no worker is there",
    differs: "",
};

pub(crate) const FIRST_TOKEN_SECONDS: Row = Row {
    name: "dynamo_component_router_time_to_first_token_seconds",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::FIRST_TOKEN_SECONDS,
    unit: "seconds",
    help: "From a request's headers to its first non-empty token",
    population: "streamed requests of all models that got a token",
    moves: "once a streamed request, at the first token of any phase; a whole response gives no sample",
    zero: "no sample: nothing was streamed yet; never absent",
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
    population: "choices of streamed requests of all models that got two tokens or more",
    moves: "once a choice of a streamed request, at its end: (last - first token) / (tokens - 1)",
    zero: "no sample: no choice of two tokens was streamed yet; never absent",
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
    population: "requests of all models that got tokens of which the number is known, however they ended",
    moves: "once a request, at its end, if above zero",
    zero: "a request without output gives no sample, so that a low count is no sign of short answers; never absent",
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
    population: "requests of all models of a pool with this phase; one that waits in the queue is in no stage",
    moves: "up when a request enters a stage, down when it leaves it, however it leaves",
    zero: "0: nobody is in this stage; absent: no pool has the phase",
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
    population: "requests of all models that passed the stage",
    moves: "when a stage is passed; a request that leaves midway gives no sample",
    zero: "no sample: nobody passed this stage yet; absent: no pool has the phase",
    act: "preprocess: tokenizer; route: selection; dispatch: network and the worker's own queue",
    differs: "carries the phase, and route measures the selection itself",
};
