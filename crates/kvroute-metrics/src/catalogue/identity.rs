//! Identity: whether the router's tokens are the engine's, and what finding out costs.

use super::{IdentityCheck, IdentityState, Kind, Label, MODEL, Row, TokenizerCache, Values, WORKER_ID};

const STATE: Label = Label { name: "state", values: Values::Of(IdentityState::VALUES) };
const CHECK_RESULT: Label = Label { name: "result", values: Values::Of(IdentityCheck::VALUES) };
const CACHE_RESULT: Label = Label { name: "result", values: Values::Of(TokenizerCache::VALUES) };

pub(crate) const IDENTITY_STATE: Row = Row {
    name: "kvroute_identity_state",
    kind: Kind::Gauge,
    labels: &[MODEL, WORKER_ID, STATE],
    buckets: &[],
    unit: "1 for the current state",
    help: "Whether the router cuts prompts into the tokens of a worker's engine: 1 for the current state, 0 for the others",
    population: "every worker of a pool whose prompts are counted",
    moves: "when a worker's evidence changes its state; gone when the worker leaves",
    zero: "exactly one state of a worker is 1; no series: its pool does not count prompts, or the worker left",
    act: "mismatch: the log has the first differing position and both ids; set pool.tokenizer to the worker's own \
          model folder. unproven for long: GET /api/workers says what is missing",
    differs: "",
};

pub(crate) const IDENTITY_CHECKS: Row = Row {
    name: "kvroute_identity_checks_total",
    kind: Kind::Counter,
    labels: &[MODEL, CHECK_RESULT],
    buckets: &[],
    unit: "checks",
    help: "Comparisons of the router's tokens with an engine's, by their result",
    population: "prompts whose ids or whose length an engine told; failed: prompts that it was asked for in vain",
    moves: "when a worker joins, with a sample of its traffic, and with every report that tells a prompt's length",
    zero: "0: no comparison ended so; absent: the pool does not count prompts",
    act: "ids or length: the log names prompt kind, position and both ids; failed: the worker has no tokenize endpoint \
          that the router knows, or it is ill",
    differs: "",
};

pub(crate) const TOKENIZER_CACHE: Row = Row {
    name: "kvroute_tokenizer_cache_tokens_total",
    kind: Kind::Counter,
    labels: &[MODEL, CACHE_RESULT],
    buckets: &[],
    unit: "tokens",
    help: "Prompt tokens by whether the tokenizer's cache had them",
    population: "tokens of prompts that the router turned into ids, by its own tokenizer (without special tokens, which \
                 need none) or by asking a worker",
    moves: "with every prompt that is tokenized",
    zero: "0: nothing was found, or had to be made; absent: the pool does not count prompts",
    act: "few hits while prompts share their beginning: the cache is too small for the number of conversations",
    differs: "",
};
