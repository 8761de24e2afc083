//! Index sources: how the index learns what one rank has cached, and how far that can be trusted.

use super::{
    DP_RANK, EventKind, Kind, Label, RejectReason, ReplayOutcome, Row, SourceState, Values, WORKER_ID,
};

const STATE: Label = Label { name: "state", values: Values::Of(SourceState::VALUES) };
const KIND: Label = Label { name: "kind", values: Values::Of(EventKind::VALUES) };
const REASON: Label = Label { name: "reason", values: Values::Of(RejectReason::VALUES) };
const OUTCOME: Label = Label { name: "outcome", values: Values::Of(ReplayOutcome::VALUES) };

pub(crate) const SOURCE_STATE: Row = Row {
    name: "kvroute_index_source_state",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK, STATE],
    buckets: &[],
    unit: "1 for the current state",
    help: "Trust in what the index holds of a rank: 1 for the current state, 0 for the others",
    moves: "when a source changes state; gone when the rank leaves",
    act: "blind: the engine's KV events do not arrive; degraded: enable the engine's replay endpoint; suspect: its \
          reports contradict its events, restart or flush it; remembered: without events, reuse is only estimated",
    differs: "",
};

pub(crate) const INDEX_BLOCKS: Row = Row {
    name: "kvroute_index_blocks",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "blocks",
    help: "Device blocks that the index holds for a rank",
    moves: "with the rank's events, or with what is remembered of it",
    act: "near the engine's cache size: it evicts",
    differs: "",
};

pub(crate) const BLOCKS_REJECTED: Row = Row {
    name: "kvroute_index_blocks_rejected_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK, REASON],
    buckets: &[],
    unit: "blocks; with reason rejected whole events and prompts",
    help: "Blocks of a rank that the index cannot place, or that contradict what it holds",
    moves: "orphaned: the parent is unknown yet; dropped: too many wait for theirs; conflicting: a hash changed its \
            meaning; rejected: an event contradicts itself, or it or a remembered prompt the rank's block size",
    act: "orphaned beside gaps: enable the engine's replay endpoint; the others: the engine's events cannot be trusted",
    differs: "",
};

pub(crate) const EVENT_LAG_SECONDS: Row = Row {
    name: "kvroute_index_event_lag_seconds",
    kind: Kind::Gauge,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "seconds",
    help: "Age of the latest event batch of a rank when it was applied",
    moves: "with every live batch",
    act: "seconds: clocks differ, or the router cannot keep up",
    differs: "",
};

pub(crate) const INDEX_EVENTS: Row = Row {
    name: "kvroute_index_events_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK, KIND],
    buckets: &[],
    unit: "events",
    help: "KV events of a rank by what they did",
    moves: "with every event",
    act: "undecodable: the engine's event format is newer than this router",
    differs: "",
};

pub(crate) const INDEX_GAPS: Row = Row {
    name: "kvroute_index_gaps_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "gaps",
    help: "Times that sequence numbers of a rank's events skipped",
    moves: "when a batch does not follow the one before",
    act: "rising: raise the engine's event buffer, or look at the network",
    differs: "",
};

pub(crate) const MISSED_BATCHES: Row = Row {
    name: "kvroute_index_missed_batches_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "batches",
    help: "Event batches of a rank that no replay brought back",
    moves: "when a gap is given up",
    act: "above zero: the rank's index was rebuilt from nothing; enable the engine's replay endpoint",
    differs: "",
};

pub(crate) const INDEX_REPLAYS: Row = Row {
    name: "kvroute_index_replays_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK, OUTCOME],
    buckets: &[],
    unit: "replays",
    help: "Replays that were asked of a rank's engine, by how they ended",
    moves: "when a replay ends",
    act: "short: raise the engine's replay buffer; failed: also counts parts of an answer that were lost and asked for again",
    differs: "",
};

pub(crate) const INDEX_RESTARTS: Row = Row {
    name: "kvroute_index_restarts_total",
    kind: Kind::Counter,
    labels: &[WORKER_ID, DP_RANK],
    buckets: &[],
    unit: "restarts",
    help: "Times that an engine began its event stream anew, so that the rank was cleared",
    moves: "when a live sequence number is not above the last one",
    act: "without a deployment: the engine crashes",
    differs: "",
};
