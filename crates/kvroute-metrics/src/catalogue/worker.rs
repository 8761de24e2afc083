//! Workers: their state, their booked load and what they last did.

use super::{DP_RANK, EngineRequests, Kind, Label, Row, Values, WORKER_ID, WORKER_TYPE, WorkerState};

const STATE: Label = Label { name: "state", values: Values::Of(WorkerState::VALUES) };
const REQUEST_STATE: Label = Label { name: "state", values: Values::Of(EngineRequests::VALUES) };

pub(crate) const WORKER_STATE: Row = Row {
    name: "kvroute_worker_state",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, STATE],
    buckets: &[],
    unit: "1 for the current state",
    help: "Whether a worker takes requests: 1 for its current state, 0 for the others",
    population: "every worker that is configured or was discovered",
    moves: "when a worker changes state; gone when it leaves",
    zero: "exactly one state of a worker is 1; no series: the worker left",
    act: "unhealthy or open: the worker's log and network",
    differs: "",
};

pub(crate) const ACTIVE_DECODE_BLOCKS: Row = Row {
    name: "dynamo_frontend_worker_active_decode_blocks",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK, WORKER_TYPE],
    buckets: &[],
    unit: "blocks",
    help: "Blocks of the sequences that the router booked on a rank, shared prefixes once",
    population: "attempts that this router booked on the rank and that still run; uncounted ones by an estimate",
    moves: "with every booking, output block and release; 0 at rest",
    zero: "0: this router has nothing there, though others may; absent: the rank left",
    act: "near the rank's capacity: it will preempt or evict",
    differs: "",
};

pub(crate) const ACTIVE_PREFILL_TOKENS: Row = Row {
    name: "dynamo_frontend_worker_active_prefill_tokens",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK, WORKER_TYPE],
    buckets: &[],
    unit: "tokens",
    help: "Prompt tokens that a rank still has to compute, as the router booked them",
    population: "attempts that this router booked on the rank and that have no first token yet; uncounted ones by \
                 an estimate",
    moves: "up with a booking, down at the first token or the release; 0 at rest",
    zero: "0: all that this router sent is computed; absent: the rank left",
    act: "uneven over ranks: the cache outweighs the load; look at the weights",
    differs: "",
};

pub(crate) const LAST_FIRST_TOKEN_SECONDS: Row = Row {
    name: "dynamo_frontend_worker_last_time_to_first_token_seconds",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK, WORKER_TYPE],
    buckets: &[],
    unit: "seconds",
    help: "Time to the first token of the latest streamed request; 0 until there was one",
    population: "the latest streamed request that got a token from the rank",
    moves: "at the first token",
    zero: "0: nothing was streamed yet, never a measured time; absent: the rank left",
    act: "one rank far above the others: it is overloaded or ill",
    differs: "",
};

pub(crate) const LAST_INPUT_TOKENS: Row = Row {
    name: "dynamo_frontend_worker_last_input_sequence_tokens",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK, WORKER_TYPE],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens of the latest streamed request; 0 until there was one",
    population: "the latest streamed request that got a token from the rank and whose prompt was counted",
    moves: "at the first token",
    zero: "0: there was none yet; absent: the rank left",
    act: "explains the time to the first token beside it",
    differs: "",
};

pub(crate) const LAST_INTER_TOKEN_SECONDS: Row = Row {
    name: "dynamo_frontend_worker_last_inter_token_latency_seconds",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK, WORKER_TYPE],
    buckets: &[],
    unit: "seconds",
    help: "Mean time between tokens of the latest streamed choice; 0 until there was one",
    population: "the latest streamed choice of two tokens or more from the rank",
    moves: "at the end of a request",
    zero: "0: there was none yet, or all its tokens came at once; absent: the rank left",
    act: "one rank far above the others: its decode batch is too full",
    differs: "",
};

pub(crate) const WORKER_PREDICTED: Row = Row {
    name: "kvroute_reuse_worker_predicted_tokens_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "tokens",
    help: "Cached prefix that the index held for a rank, of attempts that the rank then reported on",
    population: "attempts on the rank with outcome reported that were selected with an index view",
    moves: "on a report with outcome reported, if there was an index view",
    zero: "0: nothing was promised of the rank to an attempt that reported; absent: the rank left",
    act: "compare with kvroute_reuse_worker_reported_tokens_total: the same attempts",
    differs: "",
};

pub(crate) const WORKER_REPORTED: Row = Row {
    name: "kvroute_reuse_worker_reported_tokens_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "tokens",
    help: "Tokens that a rank reported to have reused, of the attempts with a prediction",
    population: "the very attempts of kvroute_reuse_worker_predicted_tokens_total",
    moves: "on a report with outcome reported, if there was an index view",
    zero: "0 beside a prediction: the rank reuses nothing of what the index holds; absent: the rank left",
    act: "far below the prediction on one rank: its cache was emptied unannounced, or its block size is wrong",
    differs: "",
};

pub(crate) const WORKER_RECENT: Row = Row {
    name: "kvroute_worker_recent_tokens",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "tokens",
    help: "Tokens that a rank was lately given to compute, fading with time",
    population: "all that this router booked on the rank, the latest with the most weight",
    moves: "up with every booking and output, then fades; 0 below one token",
    zero: "0: nothing came lately; absent: the rank left",
    act: "uneven over ranks while load is low: sessions gather on few of them; no measure of load, which is 0 at rest",
    differs: "",
};

pub(crate) const WORKER_ENGINE_REQUESTS: Row = Row {
    name: "kvroute_worker_engine_requests",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK, REQUEST_STATE],
    buckets: &[],
    unit: "requests",
    help: "Requests of a rank as its engine counts them, whoever sent them",
    population: "requests that the engine has, whoever sent them",
    moves: "each time the engine is asked for its load; absent before its first answer and where it is never asked",
    zero: "0: the engine said so; absent: it has not answered yet, or is never asked",
    act: "above what the router booked: others use the engine too; as old as \
          kvroute_worker_engine_load_age_seconds says",
    differs: "",
};

pub(crate) const WORKER_ENGINE_LOAD_AGE: Row = Row {
    name: "kvroute_worker_engine_load_age_seconds",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "seconds",
    help: "Time since the engine last told the load of a rank, or since it was first asked",
    population: "the latest answer of the engine about its load",
    moves: "each time the engine is asked; grows while it does not answer; absent where it is never asked",
    zero: "0: it answered just now; absent: it is never asked",
    act: "beyond three intervals decisions ignore what the engine said: the log names the cause",
    differs: "",
};
