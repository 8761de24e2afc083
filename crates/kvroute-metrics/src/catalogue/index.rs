//! The index itself, and the ranks of which it knows only what the router placed there.

use super::{DP_RANK, Kind, MODEL, Row, WORKER_ID};

pub(crate) const INDEX_BYTES: Row = Row {
    name: "kvroute_index_bytes",
    kind: Kind::Gauge,
    labels: &[MODEL],
    buckets: &[],
    unit: "bytes",
    help: "Memory that the prefix index of a model occupies, everything included; never above its budget",
    population: "all ranks of the model together, what lies around their blocks included",
    moves: "about once a second; absent while no index view exists",
    zero: "0: not measured yet; absent: no rank of the pool has an index source, or nothing asks one",
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
    population: "copies of blocks on all ranks of the model, one for each rank that holds the block",
    moves: "when a store finds the index full; absent while no index view exists",
    zero: "0: the budget suffices; absent: no rank of the pool has an index source, or nothing asks one",
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
    population: "what this router placed on the rank; requests of others are not known",
    moves: "with placements, and as they time out or are forgotten; gone when the rank leaves",
    zero: "0: nothing is remembered; absent: the rank tells by events, or has no source",
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
    population: "remembered blocks of the rank",
    moves: "when a prompt or an answer needs the room; not when a block times out, or a report shows that it is gone",
    zero: "0: its cache had room so far; absent: the rank tells by events, or has no source",
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
    population: "prompts that this router placed on the rank",
    moves: "with every prompt on a rank without events and without a known KV capacity",
    zero: "0: the rank's capacity is known, or nothing was placed; absent: the rank tells by events, or has no \
           source",
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
    population: "answers of the attempts that this router placed on the rank",
    moves: "while answers are generated",
    zero: "0: no answer took a further block; absent: the rank tells by events, or has no source",
    act: "its rate shows how much of the rank's cache answers take",
    differs: "",
};
