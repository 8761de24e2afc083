//! The cache-reuse funnel: what came in, what was cached where, what the engines say they reused.

use super::{Kind, Label, MODEL, PHASE, ReportOutcome, Row, UncountedReason, Values, texts};
use crate::buckets;

const OUTCOME: Label = Label { name: "outcome", values: Values::Of(&texts!(ReportOutcome)) };
const REASON: Label = Label { name: "reason", values: Values::Of(&texts!(UncountedReason)) };

pub(crate) const INPUT_TOKENS: Row = Row {
    name: "dynamo_component_router_input_sequence_tokens",
    kind: Kind::Histogram,
    labels: &[PHASE, MODEL],
    buckets: buckets::INPUT_TOKENS,
    unit: "tokens",
    help: "Input tokens of an attempt as the router tokenized them; the sum is the funnel's input",
    moves: "at selection, in every routing mode; never for query-only selections",
    act: "the base of every share: divide the stages below by its _sum over the same window",
    differs: "added together with the cached stages, in one call, so that all describe the same attempts",
};

pub(crate) const BEST_CACHED: Row = Row {
    name: "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Longest cached prefix on any worker rank that the picker could choose",
    moves: "at selection; absent while no index view exists, which is not the same as zero",
    act: "far below kvroute_router_best_cached_prefix_tokens_total: workers that hold the cache are not eligible",
    differs: "",
};

pub(crate) const SELECTED_CACHED: Row = Row {
    name: "dynamo_component_router_kv_selected_cached_prefix_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Cached prefix on the worker rank that was picked",
    moves: "at selection; absent while no index view exists, which is not the same as zero",
    act: "far below the best eligible: load or the policy outweighs the cache; look at the weights",
    differs: "",
};

pub(crate) const WORKER_REUSED: Row = Row {
    name: "dynamo_component_router_kv_worker_reused_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Tokens that workers report to have reused; divide by kvroute_router_reuse_reported_input_tokens_total",
    moves: "on the first valid report of an attempt, zero included; later errors or reports change nothing",
    act: "below the selected prefix: kvroute_router_reuse_lost_tokens_total says why, token by token",
    differs: "counted in every routing mode, and never from the decode leg of a disaggregated request",
};

pub(crate) const ANYWHERE_CACHED: Row = Row {
    name: "kvroute_router_best_cached_prefix_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Longest cached prefix on any worker rank that could take the attempt, eligible or not",
    moves: "at selection; absent while no index view exists, which is not the same as zero",
    act: "low against the input: the fleet does not hold the prefixes; look at cache sizes and eviction",
    differs: "",
};

pub(crate) const REUSE_REPORTS: Row = Row {
    name: "kvroute_router_reuse_reports_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL, OUTCOME],
    buckets: &[],
    unit: "attempts",
    help: "Attempts by what became of their reuse report; exactly one outcome an attempt",
    moves: "on the first valid report, else when the attempt is closed",
    act: "missing: switch on the engine's cached-token reporting; mismatched: the tokenizers differ",
    differs: "",
};

pub(crate) const REPORTED_INPUT: Row = Row {
    name: "kvroute_router_reuse_reported_input_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens of the attempts whose report was counted",
    moves: "together with the reused tokens",
    act: "the denominator of the reuse rate; divided by the expected input it is the coverage",
    differs: "",
};

pub(crate) const EXPECTED_INPUT: Row = Row {
    name: "kvroute_router_reuse_expected_input_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens of the attempts that could have reported their reuse",
    moves: "with the outcome; not for excluded, ambiguous and unfinished ones",
    act: "coverage below 0.9: the reuse rate speaks of a part of the traffic only",
    differs: "",
};

pub(crate) const UNCACHED_PREFILL: Row = Row {
    name: "kvroute_uncached_prefill_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens that workers had to compute: input less reused, of attempts with outcome reported",
    moves: "on the report",
    act: "its rate is the real prefill demand: scale the fleet by it",
    differs: "",
};

pub(crate) const UNCOUNTED_ATTEMPTS: Row = Row {
    name: "kvroute_uncounted_attempts_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL, REASON],
    buckets: &[],
    unit: "attempts",
    help: "Attempts whose prompt the router could not or was not to count, and that were routed by load",
    moves: "at selection",
    act: "template, tokenizer: look at the pool's tokenizer folder; the funnel leaves these attempts out",
    differs: "",
};
