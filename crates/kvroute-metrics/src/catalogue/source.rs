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
    population: "every rank whose cache the index knows of, by events or by memory",
    moves: "when a source changes state; gone when the rank leaves",
    zero: "exactly one state of a rank is 1; no series: the rank has no index source, and nothing is predicted for \
           it",
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
    population: "blocks of the rank's device cache; those of slower tiers are not in it",
    moves: "with the rank's events, or with what is remembered of it",
    zero: "0: the index holds nothing of the rank; absent: the rank has no index source",
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
    population: "blocks and events of the rank; where it is remembered, prompts that were placed on it",
    moves: "orphaned: the parent is unknown yet; dropped: too many wait for theirs; conflicting: a hash changed its \
            meaning; rejected: an event contradicts itself, or it or a remembered prompt the rank's block size",
    zero: "0: everything fitted; absent: the rank has no index source; a remembered rank has reason rejected only",
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
    population: "the latest live batch that told when it was published; replayed ones are old by nature",
    moves: "with every live batch",
    zero: "0: no such batch yet, or the engine's clock is ahead; absent: the rank is remembered or has no index \
           source",
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
    population: "events of the rank, live and replayed",
    moves: "with every event",
    zero: "0 for all kinds while requests run: its events do not arrive; absent: the rank is remembered or has no \
           index source",
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
    population: "live batches of the rank",
    moves: "when a batch does not follow the one before",
    zero: "0: no batch was skipped; absent: the rank is remembered or has no index source",
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
    population: "batches that the rank's gaps skipped",
    moves: "when a gap is given up",
    zero: "0: every gap was filled by a replay, or there was none; absent: the rank is remembered or has no index \
           source",
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
    population: "replays that were asked of the rank's engine and are over",
    moves: "when a replay ends",
    zero: "0: none ended so; absent: the rank is remembered or has no index source",
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
    population: "the rank's event stream as long as it is a member",
    moves: "when a live sequence number is not above the last one",
    zero: "0: the stream never began anew; absent: the rank is remembered or has no index source",
    act: "without a deployment: the engine crashes",
    differs: "",
};
