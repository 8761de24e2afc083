//! What holds of the histories of all models together, where there is one.

use super::account::whole;
use super::equation::Findings;
use crate::Exposition;

const F1: &str = "dynamo_component_router_kv_history_cached_prefix_tokens_total";
const BY_MODEL: &str = "kvroute_router_history_cached_tokens_total";
const OBSERVED_INPUT: &str = "dynamo_component_router_cache_loss_observation_input_tokens_total";
const OBSERVATIONS: &str = "dynamo_component_router_cache_loss_observations_total";
const SHARING: &str = "kvroute_history_sharing";
const LOST: &str = "kvroute_router_reuse_lost_tokens_total";
const ATTEMPTS: &str = "kvroute_attempts_total";

/// What there is of what, and how much there may be.
const BOUNDED: [(&str, &str); 2] =
    [("unique_hashes", "capacity_blocks"), ("estimated_bytes", "capacity_bytes")];

pub(super) fn check(scrape: &Exposition, findings: &mut Findings) {
    findings.about("history");
    check_existence(scrape, findings);
    if scrape.sum(F1, &[]).is_none() {
        return;
    }
    let known = ("F1", sum(scrape, F1, &[]));
    let observed = ("observed input", sum(scrape, OBSERVED_INPUT, &[]));
    let by_model = ("F1 by model", sum(scrape, BY_MODEL, &[]));
    findings.equal(&[known], &[by_model]);
    findings.equal(&[observed], &[known, ("new", sum(scrape, LOST, &[("stage", "new")]))]);
    let results = ("observations", sum(scrape, OBSERVATIONS, &[]));
    findings.at_most(&[results], &[("attempts", sum(scrape, ATTEMPTS, &[]))]);
    findings.equal(&[("states of sharing", sum(scrape, SHARING, &[]))], &[("one", 1)]);
    for (held, bound) in BOUNDED {
        let of = |name| ("held or bound", sum(scrape, &level(name), &[]));
        findings.at_most(&[of(held)], &[of(bound)]);
    }
}

/// All of it is registered with the first pool that has a history, and none of it before.
fn check_existence(scrape: &Exposition, findings: &mut Findings) {
    let levels = BOUNDED.iter().flat_map(|(held, bound)| [level(held), level(bound)]);
    let names = [OBSERVED_INPUT, OBSERVATIONS, SHARING]
        .map(str::to_owned)
        .into_iter()
        .chain([level("represented_tokens")]);
    let exists = |name: &str| scrape.sum(name, &[]).is_some();
    for name in names.chain(levels) {
        findings.holds(exists(&name) == exists(F1), || format!("{name} without {F1}, or the reverse"));
    }
    findings.holds(!exists(BY_MODEL) || exists(F1), || format!("{BY_MODEL} without {F1}"));
}

fn level(name: &str) -> String {
    format!("dynamo_component_router_cache_loss_history_{name}")
}

fn sum(scrape: &Exposition, name: &str, labels: &[(&str, &str)]) -> u64 {
    scrape.sum(name, labels).map_or(0, whole)
}
