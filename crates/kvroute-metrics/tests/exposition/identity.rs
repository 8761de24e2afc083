//! Families of what not every pool does: absent where it is off, at zero from the start where it is on.

use kvroute_core::{ModelName, Phase, Tokens, WorkerId};
use kvroute_metrics::{
    IdentityCheck, IdentityState, Metrics, MigrationReason, PoolLabels, PoolMetrics, PrefillFallbackReason,
};

use super::reader::samples;
use super::script::metrics;

fn pool(metrics: &Metrics, phases: &[Phase]) -> PoolMetrics {
    counting(metrics, phases, true)
}

fn counting(metrics: &Metrics, phases: &[Phase], counts_input: bool) -> PoolMetrics {
    metrics.pool(&PoolLabels {
        model: &ModelName::new("alpha"),
        policy: "kv",
        reasons: &[],
        shadows: &[],
        phases,
        counts_input,
        history: None,
    })
}

/// Values of a family by one of its labels.
fn values(metrics: &Metrics, family: &str, label: &str) -> Vec<(String, f64)> {
    let of_family = samples(&metrics.render()).into_iter().filter(|sample| sample.family == family);
    of_family.map(|sample| (sample.labels.get(label).cloned().unwrap_or_default(), sample.value)).collect()
}

fn pairs(values: &[(&str, f64)]) -> Vec<(String, f64)> {
    values.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect()
}

#[test]
fn exactly_one_state_of_a_workers_identity_is_current_and_it_begins_unproven() {
    let metrics = metrics();
    let pool = pool(&metrics, &[Phase::Aggregated]);
    let identity = pool.identity(&WorkerId::new("w"));
    let current = || {
        let all = values(&metrics, "kvroute_identity_state", "state");
        all.into_iter().filter(|(_, value)| *value != 0.0).collect::<Vec<_>>()
    };
    assert_eq!(current(), pairs(&[("unproven", 1.0)]));
    for state in IdentityState::ALL {
        identity.set_state(state);
        assert_eq!(current(), pairs(&[(state.as_str(), 1.0)]));
    }
    identity.close();
    assert!(values(&metrics, "kvroute_identity_state", "state").is_empty());
}

#[test]
fn checks_are_the_models_and_stay_when_a_worker_leaves() {
    let metrics = metrics();
    let pool = pool(&metrics, &[Phase::Aggregated]);
    let checks = || values(&metrics, "kvroute_identity_checks_total", "result");
    let [first, second] = ["a", "b"].map(|id| pool.identity(&WorkerId::new(id)));
    first.checked(IdentityCheck::Equal);
    second.checked(IdentityCheck::Equal);
    second.checked(IdentityCheck::Ids);
    drop(first);
    assert_eq!(checks(), pairs(&[("equal", 2.0), ("failed", 0.0), ("ids", 1.0), ("length", 0.0)]));
}

#[test]
fn migrations_exist_where_streams_can_migrate() {
    let metrics = metrics();
    let pool = pool(&metrics, &[Phase::Aggregated]);
    let migrations = || values(&metrics, "kvroute_migrations_total", "reason");
    assert!(migrations().is_empty());
    pool.migrates();
    assert_eq!(migrations(), pairs(&[("broken", 0.0), ("ended_early", 0.0), ("stalled", 0.0)]));
    pool.migrated(MigrationReason::Stalled);
    assert_eq!(migrations(), pairs(&[("broken", 0.0), ("ended_early", 0.0), ("stalled", 1.0)]));
}

#[test]
fn what_prefill_workers_could_have_done_is_told_only_of_pools_that_have_the_phase() {
    let metrics = metrics();
    let fallbacks = || values(&metrics, "kvroute_prefill_fallbacks_total", "reason");
    let stranded = || values(&metrics, "kvroute_stranded_prefill_tokens_total", "model");
    let aggregated = pool(&metrics, &[Phase::Aggregated]);
    assert!(fallbacks().is_empty() && stranded().is_empty());
    drop(aggregated);

    let split = pool(&metrics, &[Phase::Aggregated, Phase::Prefill, Phase::Decode]);
    assert_eq!(stranded(), pairs(&[("alpha", 0.0)]));
    split.prefill_fell_back(PrefillFallbackReason::Failed);
    split.stranded(Tokens::new(300));
    let expected = [
        ("cached", 0.0),
        ("failed", 1.0),
        ("no_connector", 0.0),
        ("no_worker", 0.0),
        ("unhealthy", 0.0),
        ("unsupported", 0.0),
    ];
    assert_eq!(fallbacks(), pairs(&expected));
    assert_eq!(stranded(), pairs(&[("alpha", 300.0)]));
}

#[test]
fn a_pool_that_counts_no_prompts_has_no_tokens_to_compare_or_to_keep() {
    let metrics = metrics();
    let checks = || values(&metrics, "kvroute_identity_checks_total", "result");
    let tokens = || values(&metrics, "kvroute_tokenizer_cache_tokens_total", "result");
    let uncounted = counting(&metrics, &[Phase::Aggregated], false);
    assert!(checks().is_empty() && tokens().is_empty());
    drop(uncounted);

    let counted = pool(&metrics, &[Phase::Aggregated]);
    assert_eq!((checks().len(), tokens()), (IdentityCheck::ALL.len(), pairs(&[("hit", 0.0), ("miss", 0.0)])));
    counted.tokenizer_cache().looked_up(Tokens::new(70), Tokens::new(30));
    assert_eq!(tokens(), pairs(&[("hit", 70.0), ("miss", 30.0)]));
}
