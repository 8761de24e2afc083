//! The loss ledger: why less was reused than could have been, token by token.

use super::{DeliveryReason, Kind, Label, LossStage, MODEL, PHASE, Row, Values};

const STAGE: Label = Label { name: "stage", values: Values::Of(LossStage::VALUES) };
const REASON: Label = Label { name: "reason", values: Values::Of(DeliveryReason::VALUES) };

pub(crate) const REUSE_LOST: Row = Row {
    name: "kvroute_router_reuse_lost_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL, STAGE, REASON],
    buckets: &[],
    unit: "tokens",
    help: "Tokens lost between two stages of the funnel, by the one reason of each; of phases aggregated and prefill",
    moves: "delivery: last_block with the report, the others 1 to 5 seconds after the attempt is closed, when all \
            events that could explain the loss are in; absent while no index view exists",
    act: "stale_index: look at kvroute_index_source_state and the gaps; unexplained: the engine evicts without an \
          event, or was emptied; last_block is natural",
    differs: "",
};

pub(crate) const REUSE_SURPLUS: Row = Row {
    name: "kvroute_router_reuse_surplus_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL, STAGE],
    buckets: &[],
    unit: "tokens",
    help: "Tokens of which the later stage of the funnel had more than the earlier one",
    moves: "delivery: with a report above the selected cached prefix; absent while no index view exists",
    act: "rising: engines hold more than the index knows; look for sources that are not exact",
    differs: "",
};

pub(crate) const COMPARED_PREDICTED: Row = Row {
    name: "kvroute_router_reuse_compared_predicted_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Cached prefix on the picked worker rank, of the attempts whose report it was compared with",
    moves: "on a report with outcome reported, if there was an index view; absent while none exists",
    act: "at rest equal to compared reported + lost - surplus of stage delivery; else the ledger is broken",
    differs: "",
};

pub(crate) const COMPARED_REPORTED: Row = Row {
    name: "kvroute_router_reuse_compared_reported_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Tokens that workers report to have reused, of the attempts with an index view",
    moves: "together with the compared predicted tokens",
    act: "divided by the compared predicted tokens: how far the index can be believed",
    differs: "",
};
