//! The index itself, and the ranks of which it knows only what the router placed there.

use super::{DP_RANK, Kind, MODEL, Row, WORKER_ID};

pub(crate) const INDEX_BYTES: Row = Row {
    name: "kvroute_index_bytes",
    kind: Kind::Gauge,
    labels: &[MODEL],
    buckets: &[],
    unit: "bytes",
    help: "Memory that the prefix index of a model occupies, everything included; never above its budget",
    moves: "about once a second; absent while no index view exists",
    act: "near pool.index.bytes: look at kvroute_index_budget_evictions_total, and raise the budget if it moves",
    differs: "",
};

pub(crate) const BUDGET_EVICTIONS: Row = Row {
    name: "kvroute_index_budget_evictions_total",
    kind: Kind::Counter,
    labels: &[MODEL],
    buckets: &[],
    unit: "blocks",
    help: "Copies of blocks that the index forgot to stay within its byte budget, though engines still hold them",
    moves: "when a store finds the index full; absent while no index view exists",
    act: "rising: the fleet caches more than the index may remember; raise pool.index.bytes",
    differs: "",
};

pub(crate) const REMEMBERED_BLOCKS: Row = Row {
    name: "kvroute_index_remembered_blocks",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "blocks",
    help: "Blocks that a rank without events is thought to hold, because the router placed them there",
    moves: "with placements, and as they time out or are forgotten; gone when the rank leaves",
    act: "an estimate: compare the rank's predicted and reported tokens to see how good it is",
    differs: "",
};

pub(crate) const REMEMBERED_EVICTED: Row = Row {
    name: "kvroute_index_remembered_evicted_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "blocks",
    help: "Remembered blocks of a rank without events that were let go, because its cache has no room for more",
    moves: "when a prompt or an answer needs the room; not when a block times out, or a report shows that it is gone",
    act: "fast: the rank's cache is small for its traffic, or its reports taught that it holds less than it says",
    differs: "",
};

pub(crate) const REMEMBERED_FALLBACKS: Row = Row {
    name: "kvroute_index_remembered_fallbacks_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "prompts",
    help: "Prompts that are remembered for a time only, because nobody knows how much the rank's cache holds",
    moves: "with every prompt on a rank without events and without a known KV capacity",
    act: "above zero: pool.index.ttl decides what is remembered; set it to how long the engine keeps a prompt",
    differs: "",
};

pub(crate) const REMEMBERED_OUTPUT_BATCHES: Row = Row {
    name: "kvroute_index_remembered_output_batches_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "batches",
    help: "Times that a growing answer took further blocks of the cache of a rank without events",
    moves: "while answers are generated",
    act: "its rate shows how much of the rank's cache answers take",
    differs: "",
};
