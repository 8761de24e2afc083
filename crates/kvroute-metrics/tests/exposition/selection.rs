//! What a scraper sees of selection: the line, the shadows, what is kept of decisions, and the load that is told.

use std::time::Duration;

use kvroute_core::{DpRank, ModelName, Phase, Tokens, WorkerId, WorkerRank};
use kvroute_metrics::{Metrics, PoolLabels, PoolMetrics, QueueRefusal, WorkerType};

use crate::reader::{sample, samples};
use crate::script::metrics;

const PENDING: &str = "dynamo_frontend_router_queue_pending_requests{model=\"alpha\",worker_type=\"decode\"}";

fn pool(metrics: &Metrics, phases: &[Phase]) -> PoolMetrics {
    metrics.pool(&PoolLabels {
        model: &ModelName::new("alpha"),
        policy: "kv",
        reasons: &["lowest_cost"],
        shadows: &["random"],
        phases,
        counts_input: true,
        history: None,
    })
}

#[test]
fn a_request_is_in_line_while_its_guard_lives_however_that_ends() {
    let metrics = metrics();
    let pool = pool(&metrics, &[Phase::Aggregated]);
    let pending = || sample(&metrics.render(), PENDING);
    assert_eq!(pending(), Some(0.0));
    let (placed, given_up) = (pool.queue().entered(), pool.queue().entered());
    assert_eq!(pending(), Some(2.0));
    drop(given_up);
    assert_eq!(pending(), Some(1.0));
    drop(placed);
    assert_eq!(pending(), Some(0.0));

    let in_line = pool.queue().entered();
    drop(pool);
    assert_eq!(pending(), None);
    drop(in_line);
    assert_eq!(pending(), None);
}

#[test]
fn the_line_of_a_prefill_pool_is_told_from_that_of_a_decode_pool() {
    let metrics = metrics();
    let pools = [pool(&metrics, &[Phase::Prefill]), pool(&metrics, &[Phase::Decode])];
    let _in_line = pools[0].queue().entered();
    let of_type = |kind: &str| sample(&metrics.render(), &PENDING.replace("decode", kind));
    assert_eq!([of_type("prefill"), of_type("decode")], [Some(1.0), Some(0.0)]);
}

#[test]
fn waits_and_refusals_are_counted_by_model_and_reason() {
    let metrics = metrics();
    let pool = pool(&metrics, &[Phase::Aggregated]);
    let queue = pool.queue();
    queue.waited(Duration::from_millis(300));
    queue.refused(QueueRefusal::Full);
    queue.refused(QueueRefusal::Full);
    let text = metrics.render();
    let of_reason = |reason: &str| {
        sample(&text, &format!("kvroute_queue_refused_total{{model=\"alpha\",reason=\"{reason}\"}}"))
    };
    assert_eq!(["full", "timeout", "no_worker"].map(of_reason), [Some(2.0), Some(0.0), Some(0.0)]);
    let wait = |part: &str| sample(&text, &format!("kvroute_queue_wait_seconds_{part}{{model=\"alpha\"}}"));
    assert_eq!([wait("count"), wait("sum")], [Some(1.0), Some(0.3)]);
}

#[test]
fn a_shadow_has_a_base_of_its_own() {
    let metrics = metrics();
    let pool = pool(&metrics, &[Phase::Aggregated]);
    let value = |what: &str, policy: &str| {
        let labels = format!("{{model=\"alpha\",policy=\"{policy}\"}}");
        sample(&metrics.render(), &format!("kvroute_shadow_{what}_tokens_total{labels}"))
    };
    assert_eq!([value("compared_input", "random"), value("selected_cached", "random")], [Some(0.0); 2]);
    pool.shadow("random", Tokens::new(1000), Tokens::new(48));
    pool.shadow("random", Tokens::new(500), Tokens::ZERO);
    pool.shadow("sticky", Tokens::new(20), Tokens::new(16));
    assert_eq!(value("compared_input", "random"), Some(1500.0));
    assert_eq!(value("selected_cached", "random"), Some(48.0));
    assert_eq!(
        [value("compared_input", "sticky"), value("selected_cached", "sticky")],
        [Some(20.0), Some(16.0)]
    );
    drop(pool);
    assert_eq!(value("compared_input", "sticky"), None);
}

#[test]
fn every_decision_is_either_kept_or_counted_as_not_kept() {
    let metrics = metrics();
    let pool = pool(&metrics, &[Phase::Aggregated]);
    pool.decision_recorded();
    pool.decision_recorded();
    pool.decision_unrecorded();
    let text = metrics.render();
    let value =
        |what: &str| sample(&text, &format!("kvroute_decisions_{what}_total{{model=\"alpha\"}}")).unwrap();
    assert_eq!([value("recorded"), value("unrecorded")], [2.0, 1.0]);
}

#[test]
fn the_load_that_an_engine_tells_is_absent_until_it_is_asked_and_until_it_answers() {
    let metrics = metrics();
    let name = WorkerRank::new(WorkerId::new("w"), DpRank::new(1));
    let rank = metrics.rank(&name, WorkerType::Decode);
    let told = || -> Vec<(String, f64)> {
        let told = samples(&metrics.render()).into_iter().filter(|sample| sample.family.contains("_engine_"));
        told.map(|sample| (sample.key(), sample.value)).collect()
    };
    assert_eq!(told(), []);
    let series = |name: &str, state: &str| {
        format!("kvroute_worker_engine_{name}{{dp_rank=\"1\",{state}worker_id=\"w\"}}")
    };
    let age = |seconds| (series("load_age_seconds", ""), seconds);
    rank.set_engine_load_age(Duration::from_secs(4));
    assert_eq!(told(), [age(4.0)]);
    rank.set_engine_load(5, 2);
    rank.set_engine_load_age(Duration::ZERO);
    let of_state = |state: &str, requests| (series("requests", &format!("state=\"{state}\",")), requests);
    assert_eq!(told(), [age(0.0), of_state("running", 5.0), of_state("waiting", 2.0)]);
    drop(rank);
    assert_eq!(told(), []);
}
