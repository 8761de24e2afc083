//! The loss ledger: why less was reused than could have been, token by token.

use super::distinct;
use super::{
    DeliveryReason, Exclusion, Kind, Label, LossStage, MODEL, NewReason, PHASE, PlacementReason,
    ResidencyReason, Row, UnavailableReason, Values,
};

const STAGE: Label = Label { name: "stage", values: Values::Of(LossStage::VALUES) };
/// A cache can hold more than the history knows, and an engine can have more than was promised: the other stages follow
/// from each other.
const SURPLUS_STAGE: Label = Label {
    name: "stage",
    values: Values::Of(&[LossStage::Residency.as_str(), LossStage::Delivery.as_str()]),
};
const REASON: Label = Label { name: "reason", values: Values::Of(&REASONS) };

/// The reasons of each stage, in the order of the stages.
const REASONS_BY_STAGE: [&[&str]; LossStage::ALL.len()] = [
    NewReason::VALUES,
    ResidencyReason::VALUES,
    UnavailableReason::VALUES,
    Exclusion::VALUES,
    PlacementReason::VALUES,
    DeliveryReason::VALUES,
];
const REASONS: [&str; distinct::count(&REASONS_BY_STAGE)] = distinct::join(&REASONS_BY_STAGE);

pub(crate) const LEDGER_INPUT: Row = Row {
    name: "kvroute_router_ledger_input_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens of the attempts that the loss ledger covers: counted exactly, with an index view, in phases \
           aggregated and prefill",
    population: "attempts of phases aggregated and prefill that were counted exactly and selected with an index view",
    moves: "at selection, together with the losses; absent while no index view exists",
    zero: "0: no such attempt yet; absent: no rank of the pool has an index source, or nothing asks one",
    act: "at rest, with the surplus of stage residency, equal to the lost tokens of stages new, residency and unavailable + \
          the best cached prefix; else the ledger is broken",
    differs: "",
};

pub(crate) const REPEATED_INPUT: Row = Row {
    name: "kvroute_router_repeated_input_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens of attempts that follow an earlier attempt of the same request in the same phase; part of the \
           input as well",
    population: "attempts after the first one of the same request in the same phase that were counted exactly",
    moves: "at selection of such an attempt, if its prompt is counted",
    zero: "0: no request needed a second attempt",
    act: "a rising share of the input: workers fail and their requests are sent again",
    differs: "",
};

pub(crate) const REUSE_LOST: Row = Row {
    name: "kvroute_router_reuse_lost_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL, STAGE, REASON],
    buckets: &[],
    unit: "tokens",
    help: "Tokens lost between two stages of the funnel, by the one reason of each; of phases aggregated and prefill",
    population: "stages before delivery: the attempts of kvroute_router_ledger_input_tokens_total; stage delivery: those of \
                 them with outcome reported",
    moves: "delivery: last_block with the report, the others 1 to 5 seconds after the attempt is closed, when all events that \
            could explain the loss are in; the other stages: at selection. With a history new and residency move, without one \
            unavailable does; absent while no index view exists",
    zero: "0: nothing was lost for this reason; absent: no rank of the pool has an index source, or nothing asks \
           one; stages new and residency besides: the pool has no history",
    act: "evicted: more cache; unhealthy: the workers' state; load: weights or more workers; stale_index: look at \
          kvroute_index_source_state and the gaps; unexplained: the engine evicts without an event, or was emptied; \
          partial_block, unseen, not_cached and last_block are natural",
    differs: "",
};

pub(crate) const LOST_SECONDS: Row = Row {
    name: "kvroute_router_lost_prefill_seconds_total",
    kind: Kind::Counter,
    labels: &[MODEL, STAGE, REASON],
    buckets: &[],
    unit: "seconds",
    help: "Time that the lost tokens take to be computed, by the prefill speed that the picked worker showed",
    population: "the very tokens of kvroute_router_reuse_lost_tokens_total, over all phases, on workers whose speed is known",
    moves: "together with the lost tokens, from the moment on when the worker's streams have shown a speed",
    zero: "0: nothing was lost for this reason, or no stream of the worker has shown its speed yet; absent: as the lost tokens",
    act: "the reason with the most seconds is the one worth working on",
    differs: "",
};

pub(crate) const REUSE_SURPLUS: Row = Row {
    name: "kvroute_router_reuse_surplus_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL, SURPLUS_STAGE],
    buckets: &[],
    unit: "tokens",
    help: "Tokens of which the later stage of the funnel had more than the earlier one",
    population: "stage residency: attempts that a history was asked about; stage delivery: attempts with outcome reported that \
                 were selected with an index view",
    moves: "residency: at selection, when more is cached than the history knows; delivery: with a report above the selected \
            cached prefix; absent while no index view exists",
    zero: "0: no later stage had more; absent: no rank of the pool has an index source, or nothing asks one; stage residency \
           besides: the pool has no history",
    act: "delivery rising: engines hold more than the index knows; look for sources that are not exact. residency rising: the \
          history knows less than the caches hold: it is too small, younger than they are, or other routers send to the same \
          workers",
    differs: "",
};

pub(crate) const COMPARED_PREDICTED: Row = Row {
    name: "kvroute_router_reuse_compared_predicted_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Cached prefix on the picked worker rank, of the attempts whose report it was compared with",
    population: "attempts of phases aggregated and prefill with outcome reported that were selected with an index \
                 view",
    moves: "on a report with outcome reported, if there was an index view; absent while none exists",
    zero: "0: nothing was promised to an attempt that reported; absent: no rank of the pool has an index source, \
           or nothing asks one",
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
    population: "the very attempts of kvroute_router_reuse_compared_predicted_tokens_total",
    moves: "together with the compared predicted tokens",
    zero: "0: these attempts reused nothing; absent: no rank of the pool has an index source, or nothing asks one",
    act: "divided by the compared predicted tokens: how far the index can be believed",
    differs: "",
};
