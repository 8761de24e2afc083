//! Decisions: why a worker was picked, what that gave away and what deciding costs.

use super::{Kind, Label, MODEL, POLICY, Row, Values, WORKER_TYPE};
use crate::buckets;

const REASON: Label = Label { name: "reason", values: Values::NameOf("reason of the policy") };

pub(crate) const DECISIONS: Row = Row {
    name: "kvroute_decisions_total",
    kind: Kind::Counter,
    labels: &[MODEL, POLICY, REASON],
    buckets: &[],
    unit: "decisions",
    help: "Decisions by why this worker",
    population: "every booked decision; advisory ones, which book nothing, are in none of these families",
    moves: "at selection",
    zero: "0: never picked for this reason; every reason that the policy can give exists from the pool's start",
    act: "tells whether the policy decides or chance among equals does",
    differs: "",
};

pub(crate) const DECISIONS_RECORDED: Row = Row {
    name: "kvroute_decisions_recorded_total",
    kind: Kind::Counter,
    labels: &[MODEL],
    buckets: &[],
    unit: "decisions",
    help: "Decisions that were kept for whoever asks why, until newer ones push them out",
    population: "booked decisions that became an attempt",
    moves: "at selection",
    zero: "0: no decision was kept; exists from the pool's start",
    act: "zero while requests flow: decisions.sample is 0",
    differs: "",
};

pub(crate) const DECISIONS_UNRECORDED: Row = Row {
    name: "kvroute_decisions_unrecorded_total",
    kind: Kind::Counter,
    labels: &[MODEL],
    buckets: &[],
    unit: "decisions",
    help: "Decisions that nobody can ask about: outside the sampled share, or above the rate that is kept",
    population: "booked decisions that became an attempt",
    moves: "at selection; recorded and unrecorded together are all decisions",
    zero: "0: every decision was kept; exists from the pool's start",
    act: "rising with decisions.sample at 1: more decisions a second than are kept",
    differs: "",
};

pub(crate) const HIT_RATE: Row = Row {
    name: "dynamo_component_router_kv_hit_rate",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::SHARES,
    unit: "share",
    help: "Tier-weighted cached blocks on the picked worker by the blocks of the prompt",
    population: "booked decisions of all models with an index view",
    moves: "at selection by an index; not for query-only selections nor for the decode leg",
    zero: "no sample: no decision asked an index yet; never absent",
    act: "a mean of ratios: for shares of tokens use the funnel's counters",
    differs: "never sampled by query-only selections, nor a second time by the decode leg",
};

pub(crate) const NON_MAX_OVERLAP: Row = Row {
    name: "dynamo_component_router_non_max_overlap_selections_total",
    kind: Kind::Counter,
    labels: &[WORKER_TYPE],
    buckets: &[],
    unit: "selections",
    help: "Selections of a worker with less weighted overlap than another eligible one",
    population: "the decisions of the hit rate",
    moves: "at selection by an index",
    zero: "0: every pick had the most overlap there was; both worker types always exist, whether or not there are \
           such workers",
    act: "rising with load is normal: the policy trades cache for queues",
    differs: "counted in every pool, not in prefill pools only",
};

pub(crate) const OVERLAP_BLOCKS_LOST: Row = Row {
    name: "dynamo_component_router_overlap_blocks_lost",
    kind: Kind::Histogram,
    labels: &[WORKER_TYPE],
    buckets: buckets::BLOCKS_LOST,
    unit: "weighted blocks",
    help: "Weighted overlap that such a selection gave away",
    population: "the selections that non_max_overlap_selections_total counts",
    moves: "with non_max_overlap_selections_total",
    zero: "no sample: nothing was given away; both worker types always exist",
    act: "large: look at the cost weights of the pool",
    differs: "counted in every pool, not in prefill pools only",
};

pub(crate) const BLOCK_HASHING_MS: Row = Row {
    name: "dynamo_router_overhead_block_hashing_ms",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::HASHING_MS,
    unit: "milliseconds",
    help: "Time a decision spent hashing the prompt's blocks",
    population: "booked decisions of all models that asked an index",
    moves: "at selection by an index",
    zero: "no sample: no decision asked an index yet; never absent",
    act: "grows with the prompt only",
    differs: "",
};

pub(crate) const SEQUENCE_HASHING_MS: Row = Row {
    name: "dynamo_router_overhead_seq_hashing_ms",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::HASHING_MS,
    unit: "milliseconds",
    help: "Time a decision spent chaining the block hashes",
    population: "booked decisions of all models that asked an index",
    moves: "at selection by an index",
    zero: "no sample: no decision asked an index yet; never absent",
    act: "grows with the prompt only",
    differs: "",
};

pub(crate) const FIND_MATCHES_MS: Row = Row {
    name: "dynamo_router_overhead_indexer_find_matches_ms",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::DECISION_MS,
    unit: "milliseconds",
    help: "Time a decision spent looking up cached prefixes",
    population: "booked decisions of all models that asked an index",
    moves: "at selection by an index",
    zero: "no sample: no decision asked an index yet; never absent",
    act: "grows with the prompt and the number of worker ranks",
    differs: "",
};

pub(crate) const SCHEDULING_MS: Row = Row {
    name: "dynamo_router_overhead_scheduling_ms",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::DECISION_MS,
    unit: "milliseconds",
    help: "Time a decision spent on costs, the pick and the booking",
    population: "every booked decision of all models",
    moves: "at selection",
    zero: "no sample: nothing was decided yet; never absent",
    act: "grows with the number of worker ranks",
    differs: "without the time that a request waits in a queue",
};

pub(crate) const DECISION_MS: Row = Row {
    name: "dynamo_router_overhead_total_ms",
    kind: Kind::Histogram,
    labels: &[],
    buckets: buckets::DECISION_MS,
    unit: "milliseconds",
    help: "Time of a whole decision, from token ids to a booked worker",
    population: "every booked decision of all models",
    moves: "at selection",
    zero: "no sample: nothing was decided yet; never absent",
    act: "above a millisecond: the router's machine is short of processors",
    differs: "without the time that a request waits in a queue",
};
