//! The history: what was ever computed, how far back that is known, and whether replicas know it together.

use kvroute_core::{Direction, MessageResult, SharingState};
use kvroute_funnel::HistoryObservation;

use super::{Kind, Label, MODEL, PHASE, Row, Values};

const RESULT: Label = Label { name: "result", values: Values::Of(HistoryObservation::VALUES) };
const SHARING_STATE: Label = Label { name: "state", values: Values::Of(SharingState::VALUES) };
const DIRECTION: Label = Label { name: "direction", values: Values::Of(Direction::VALUES) };
const MESSAGE_RESULT: Label = Label { name: "result", values: Values::Of(MessageResult::VALUES) };

pub(crate) const HISTORY_CACHED: Row = Row {
    name: "dynamo_component_router_kv_history_cached_prefix_tokens_total",
    kind: Kind::Counter,
    labels: &[],
    buckets: &[],
    unit: "tokens",
    help: "Tokens in leading blocks that some request has computed before: a ceiling of what any cache could have saved, \
           not what is cached; summed over all pools with a history",
    population: "attempts of phases aggregated and prefill that were counted exactly, with an index view, in pools with a \
                 history: those of the observed input",
    moves: "at selection, before the attempt's own blocks are learned; an entry says that a block was computed, whatever \
            became of it: eviction in an engine, a flush and a lost worker never remove one",
    zero: "0: nothing that came in was known; absent: no pool has a history",
    act: "divided by the observed input: the share that perfect caches would save. With several replicas that do not share \
          their histories it is too low, because each knows only what it served itself; \
          kvroute_history_sharing tells whether they share",
    differs: "decode attempts are not observed: their prompt was just computed by their own prefill leg",
};

pub(crate) const HISTORY_CACHED_BY_MODEL: Row = Row {
    name: "kvroute_router_history_cached_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Tokens in leading blocks that some request has computed before, cached or not, by phase and model",
    population: "the observed attempts; of a pool that has a history these are the attempts of \
                 kvroute_router_ledger_input_tokens_total",
    moves: "at selection, together with the losses; absent while no index view exists",
    zero: "0: nothing that came in was known; absent: the pool has no history, or no rank of it has an index source",
    act: "far above kvroute_router_best_cached_prefix_tokens_total: caches lose what comes again; the lost tokens of stage \
          residency say why",
    differs: "",
};

pub(crate) const HISTORY_OBSERVED_INPUT: Row = Row {
    name: "dynamo_component_router_cache_loss_observation_input_tokens_total",
    kind: Kind::Counter,
    labels: &[],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens of the attempts that a history was asked about",
    population: "the very attempts of the history-cached tokens, of all pools with a history",
    moves: "at selection, together with the history-cached tokens",
    zero: "0: no history was asked yet; absent: no pool has a history",
    act: "the base of the history-cached share",
    differs: "added at selection, with the history-cached tokens; decode attempts are not observed",
};

pub(crate) const HISTORY_OBSERVATIONS: Row = Row {
    name: "dynamo_component_router_cache_loss_observations_total",
    kind: Kind::Counter,
    labels: &[RESULT],
    buckets: &[],
    unit: "attempts",
    help: "Attempts that a history was asked about, by whether it learned them; exactly one result an attempt",
    population: "the attempts of the observed input, as far as they are over",
    moves: "when the attempt is closed",
    zero: "0: none ended so; both results exist with the first pool that has a history; absent: no pool has one",
    act: "incomplete: the attempt failed, its client left, or one of its choices failed; what it computed is not known to \
          the history",
    differs: "one result an attempt; a request with one failed choice is incomplete",
};

pub(crate) const HISTORY_UNIQUE_HASHES: Row = Row {
    name: "dynamo_component_router_cache_loss_history_unique_hashes",
    kind: Kind::Gauge,
    labels: &[],
    buckets: &[],
    unit: "blocks",
    help: "Blocks that the histories know",
    population: "all pools with a history",
    moves: "refreshed every few seconds",
    zero: "0: nothing was learned yet, or the history was emptied; absent: no pool has a history",
    act: "at the capacity the oldest are forgotten; kvroute_history_oldest_entry_age_seconds tells how old those are",
    differs: "",
};

pub(crate) const HISTORY_REPRESENTED_TOKENS: Row = Row {
    name: "dynamo_component_router_cache_loss_history_represented_tokens",
    kind: Kind::Gauge,
    labels: &[],
    buckets: &[],
    unit: "tokens",
    help: "Tokens of the blocks that the histories know",
    population: "all pools with a history, each by its smallest block size",
    moves: "refreshed every few seconds",
    zero: "0: nothing was learned yet, or the history was emptied; absent: no pool has a history",
    act: "compare it with the tokens that the fleet's caches hold: a history that knows less than they do is too small",
    differs: "",
};

pub(crate) const HISTORY_ESTIMATED_BYTES: Row = Row {
    name: "dynamo_component_router_cache_loss_history_estimated_bytes",
    kind: Kind::Gauge,
    labels: &[],
    buckets: &[],
    unit: "bytes",
    help: "Memory that the histories really hold, everything included",
    population: "all pools with a history",
    moves: "refreshed every few seconds",
    zero: "0: nothing is allocated yet; absent: no pool has a history",
    act: "never above the capacity in bytes",
    differs: "what is allocated, not an estimate",
};

pub(crate) const HISTORY_CAPACITY_BLOCKS: Row = Row {
    name: "dynamo_component_router_cache_loss_history_capacity_blocks",
    kind: Kind::Gauge,
    labels: &[],
    buckets: &[],
    unit: "blocks",
    help: "Blocks that the histories have room for",
    population: "all pools with a history",
    moves: "when a pool with a history joins or leaves",
    zero: "0: the pools that had a history are gone; absent: no pool ever had one",
    act: "follows from pool.history.bytes",
    differs: "",
};

pub(crate) const HISTORY_CAPACITY_BYTES: Row = Row {
    name: "dynamo_component_router_cache_loss_history_capacity_bytes",
    kind: Kind::Gauge,
    labels: &[],
    buckets: &[],
    unit: "bytes",
    help: "Memory that the histories may hold, everything included",
    population: "all pools with a history",
    moves: "when a pool with a history joins or leaves",
    zero: "0: the pools that had a history are gone; absent: no pool ever had one",
    act: "pool.history.bytes, summed over the pools",
    differs: "",
};

pub(crate) const HISTORY_OLDEST_ENTRY_AGE: Row = Row {
    name: "kvroute_history_oldest_entry_age_seconds",
    kind: Kind::Gauge,
    labels: &[MODEL],
    buckets: &[],
    unit: "seconds",
    help: "How far back the history reaches: the age of its oldest block",
    population: "pools with a history that knows something",
    moves: "refreshed every few seconds",
    zero: "near 0: just begun, or turned over at once; absent: the history is empty, or there is none",
    act: "with a full history, shorter than the time after which prompts come again: raise pool.history.bytes, else text that was \
          computed before counts as new",
    differs: "",
};

pub(crate) const HISTORY_UNTRACKED_OUTPUT: Row = Row {
    name: "kvroute_history_untracked_output_tokens_total",
    kind: Kind::Counter,
    labels: &[MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Generated tokens that the history did not learn, because their ids did not come",
    population: "observed attempts that completed",
    moves: "when such an attempt is closed",
    zero: "0: every answer was learned, or none came; absent: the pool has no history",
    act: "rising: the next turn of a conversation repeats the answer, and that part of it counts as new; let the engine send \
          token ids (pool.history.outputs), where it can",
    differs: "",
};

pub(crate) const HISTORY_SNAPSHOT_SECONDS: Row = Row {
    name: "kvroute_history_snapshot_seconds",
    kind: Kind::Gauge,
    labels: &[MODEL],
    buckets: &[],
    unit: "seconds",
    help: "How long the latest snapshot of the history took to be written",
    population: "pools whose pool.history.snapshot names a file",
    moves: "when a snapshot was written",
    zero: "near 0: there was little to write; absent: no snapshot was written yet, or none is to be",
    act: "near the time between two snapshots: the disk is slow for this history",
    differs: "",
};

pub(crate) const HISTORY_SHARING: Row = Row {
    name: "kvroute_history_sharing",
    kind: Kind::Gauge,
    labels: &[SHARING_STATE],
    buckets: &[],
    unit: "1 or 0",
    help: "Whether the replicas know together what was computed: 1 for the current state, 0 for the others",
    population: "this process",
    moves: "when the connection to the other replicas comes or goes, or updates are lost",
    zero: "0: not the current state; exactly one state is 1; absent: no pool has a history",
    act: "off with several replicas: each knows only what it served itself, and the history-cached tokens are too low; set \
          cluster.replica_sync. degraded: the same for the time it lasts; look at the transport",
    differs: "",
};

pub(crate) const HISTORY_SYNC_MESSAGES: Row = Row {
    name: "kvroute_history_sync_messages_total",
    kind: Kind::Counter,
    labels: &[DIRECTION, MESSAGE_RESULT],
    buckets: &[],
    unit: "messages",
    help: "Messages between replicas about what their histories learned, by what became of them",
    population: "this process, all shared histories",
    moves: "when a message is sent, or one has arrived",
    zero: "0: no such message; every series exists from the start; absent: histories are not shared",
    act: "other_domain: a replica has another model, block size or scheme; other_version: a replica is of another version; stale: \
          a late part of a transfer, harmless; malformed: something else speaks on the subject; \
          lost: the transport dropped updates",
    differs: "",
};

pub(crate) const HISTORY_SYNC_DROPPED: Row = Row {
    name: "kvroute_history_sync_dropped_total",
    kind: Kind::Counter,
    labels: &[],
    buckets: &[],
    unit: "messages",
    help: "Messages to other replicas that were never sent: there was no connection, or too many waited",
    population: "this process, all shared histories",
    moves: "while there is no connection, and when the queue to it is full; requests never wait for it",
    zero: "0: nothing was dropped; absent: histories are not shared",
    act: "rising: the transport is down or slow; the other replicas' history-cached tokens are too low meanwhile",
    differs: "",
};

pub(crate) const CLUSTER_PEERS: Row = Row {
    name: "kvroute_cluster_peers",
    kind: Kind::Gauge,
    labels: &[],
    buckets: &[],
    unit: "replicas",
    help: "Other replicas that were heard of lately",
    population: "replicas that share a history with this one",
    moves: "when a replica is heard of for the first time, or has been silent for long",
    zero: "0: no other replica is there, or the transport is down; absent: histories are not shared",
    act: "less than the replicas that run, less this one: they are not on the same subject or server",
    differs: "",
};
