//! Requests that pass from one worker to another: migrations of broken streams, and prompts computed elsewhere.

use super::{Kind, Label, MODEL, MigrationReason, PrefillFallbackReason, Row, Values};

const MIGRATION_REASON: Label = Label { name: "reason", values: Values::Of(MigrationReason::VALUES) };
const FALLBACK_REASON: Label = Label { name: "reason", values: Values::Of(PrefillFallbackReason::VALUES) };

pub(crate) const MIGRATIONS: Row = Row {
    name: "kvroute_migrations_total",
    kind: Kind::Counter,
    labels: &[MODEL, MIGRATION_REASON],
    buckets: &[],
    unit: "streams",
    help: "Streams that went on with another worker behind their first token, by what ended the worker's part",
    population: "streams of pools that migrate; one that nobody could go on with is none of them",
    moves: "when the attempt that goes on is booked",
    zero: "0: no stream went on for this reason; absent: the pool does not migrate",
    act: "broken: a worker dies of its requests, look at its log; stalled: it hangs, or pool.timeouts.idle is too short",
    differs: "",
};

pub(crate) const PREFILL_FALLBACKS: Row = Row {
    name: "kvroute_prefill_fallbacks_total",
    kind: Kind::Counter,
    labels: &[MODEL, FALLBACK_REASON],
    buckets: &[],
    unit: "requests",
    help: "Requests whose prompt was not computed by a prefill worker, by why",
    population: "requests of pools with prefill workers that one worker served alone",
    moves: "when such a request is given to the worker that serves it alone",
    zero: "0: no request was served so for this reason; absent: the pool has no prefill workers",
    act: "no_worker or unhealthy: bring prefill workers back; failed: look at their logs; cached and unsupported are as they should be",
    differs: "",
};

pub(crate) const STRANDED_PREFILL: Row = Row {
    name: "kvroute_stranded_prefill_tokens_total",
    kind: Kind::Counter,
    labels: &[MODEL],
    buckets: &[],
    unit: "tokens",
    help: "Prompt tokens that a prefill worker computed and no decode worker ever took",
    population: "prefill attempts that succeeded and whose request then failed or was served otherwise",
    moves: "when such a request is over, or goes on without what was computed",
    zero: "0: every computed prompt was used; absent: the pool has no prefill workers",
    act: "rising: decode workers fail or clients leave between the two steps; prefill workers hold the memory meanwhile",
    differs: "",
};
