//! Policies that are asked beside the one of the pool and obeyed by nobody.

use super::{Kind, Label, MODEL, Row, Values};

const POLICY: Label = Label { name: "policy", values: Values::NameOf("policy that was only asked") };

pub(crate) const SHADOW_SELECTED: Row = Row {
    name: "kvroute_shadow_selected_cached_tokens_total",
    kind: Kind::Counter,
    labels: &[MODEL, POLICY],
    buckets: &[],
    unit: "tokens",
    help: "Cached prefix on the worker rank that a shadow policy would have picked",
    population: "counted decisions with an index view whose caller named no worker and for which the shadow found \
                 one",
    moves: "at selection, where prompts are counted, an index is asked and the caller named no worker",
    zero: "0: the shadow's picks held nothing of the prompts; absent: the pool has no such shadow",
    act: "divided by the shadow's compared input: the share it would have found, beside the pool's own; the cache is \
          the one that the pool's policy filled, so a shadow that gathers prompts looks worse than it is",
    differs: "",
};

pub(crate) const SHADOW_INPUT: Row = Row {
    name: "kvroute_shadow_compared_input_tokens_total",
    kind: Kind::Counter,
    labels: &[MODEL, POLICY],
    buckets: &[],
    unit: "tokens",
    help: "Input tokens of the selections that a shadow policy was asked about",
    population: "the very decisions of kvroute_shadow_selected_cached_tokens_total",
    moves: "together with the shadow's selected cached tokens",
    zero: "0: the shadow was not asked yet, so that it has no share; absent: the pool has no such shadow",
    act: "the base of the shadow's share: never divide by the pool's own input, which counts other selections too",
    differs: "",
};
