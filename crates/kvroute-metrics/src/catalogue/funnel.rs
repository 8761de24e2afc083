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
    population: "attempts whose prompt the router counted, however they ended; retries and each phase of a request \
                 apart",
    moves: "at selection, in every routing mode; never for query-only selections",
    zero: "a sum of 0: no counted attempt yet; absent: the pool has count = off",
    act: "the base of every share: divide the stages below by its _sum over the same window",
    differs: "input and cached stages are added in one call, so that all describe the same attempts",
};

pub(crate) const BEST_CACHED: Row = Row {
    name: "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Longest cached prefix on any worker rank that the picker could choose",
    population: "counted attempts that were selected with an index view, whatever became of them",
    moves: "at selection; absent while no index view exists, which is not the same as zero",
    zero: "0: no eligible rank held anything of the prompts; absent: no rank of the pool has an index source, or \
           nothing asks one",
    act: "far below kvroute_router_best_cached_prefix_tokens_total: workers that hold the cache are not eligible",
    differs: "input and cached stages are added in one call, so that all describe the same attempts",
};

pub(crate) const SELECTED_CACHED: Row = Row {
    name: "dynamo_component_router_kv_selected_cached_prefix_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Cached prefix on the worker rank that was picked",
    population: "counted attempts that were selected with an index view, whatever became of them",
    moves: "at selection; absent while no index view exists, which is not the same as zero",
    zero: "0: the picked ranks held nothing of the prompts; absent: no rank of the pool has an index source, or \
           nothing asks one",
    act: "far below the best eligible: load or the policy outweighs the cache; look at the weights",
    differs: "input and cached stages are added in one call, so that all describe the same attempts",
};

pub(crate) const WORKER_REUSED: Row = Row {
    name: "dynamo_component_router_kv_worker_reused_tokens_total",
    kind: Kind::Counter,
    labels: &[PHASE, MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Tokens that workers report to have reused; divide by kvroute_router_reuse_reported_input_tokens_total",
    population: "attempts whose report was counted: outcomes reported, unchecked and impossible",
    moves: "on the first valid report of an attempt, zero included; later errors or reports change nothing",
    zero: "0 while kvroute_router_reuse_reported_input_tokens_total rises: nothing was reused; 0 beside 0: no \
           worker said anything",
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
    population: "counted attempts of phases aggregated and prefill that were selected with an index view",
    moves: "at selection; absent while no index view exists, which is not the same as zero",
    zero: "0: no rank held anything of the prompts; absent: no rank of the pool has an index source, or nothing \
           asks one",
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
    population: "every attempt, counted or not, but those of endpoints without a prompt",
    moves: "on the first valid report, else when the attempt is closed",
    zero: "0: no attempt had this outcome; every outcome exists from the pool's start",
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
    population: "attempts whose report was counted: outcomes reported, unchecked and impossible; of unchecked ones \
                 the engine's own count",
    moves: "together with the reused tokens",
    zero: "0: no report was counted yet, so that there is no reuse rate to speak of",
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
    population: "attempts with outcome reported, unchecked, impossible, mismatched, invalid or missing; where the \
                 router did not count, by the engine's own count if it gave one",
    moves: "with the outcome; not for excluded, ambiguous and unfinished ones",
    zero: "0: no attempt could have reported yet, so that there is no coverage to speak of",
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
    population: "attempts with outcome reported; those that said nothing are in no way estimated",
    moves: "on the report",
    zero: "0 while kvroute_router_reuse_reported_input_tokens_total rises: all input was reused; 0 beside 0: not \
           known",
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
    population: "attempts whose input is not known; with those of the input histogram they are all attempts",
    moves: "at selection",
    zero: "0: every attempt was counted; every reason exists from the pool's start",
    act: "template, tokenizer: look at the pool's tokenizer folder; the funnel leaves these attempts out",
    differs: "",
};
