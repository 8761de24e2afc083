//! The exposition as a scraper sees it, of a scripted run that moves every family.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up must fail")]

mod delivery;
mod funnel;
mod history;
mod identity;
mod reader;
mod script;
mod selection;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use kvroute_core::{DpRank, ModelName, Phase, Tokens, WorkerId, WorkerRank};
use kvroute_metrics::{
    CATALOGUE, Group, Metrics, MetricsOptions, PoolLabels, SourceState, Stage, Values, WorkerState,
    WorkerType,
};

use self::delivery::{lost, surplus};
use self::reader::{families, sample, samples};
use self::script::{Fleet, metrics};

/// Compares with a committed file, or writes it when `KVROUTE_BLESS=1`.
fn assert_committed(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("KVROUTE_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{path} is stale: run `cargo xtask bless` and review what it changed");
}

/// The exposition without what differs from run to run and from release to release.
fn reproducible(text: &str) -> String {
    let is_process =
        |line: &str| line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ").starts_with("process_");
    let lines: Vec<&str> = text.lines().filter(|line| !is_process(line)).collect();
    lines.join("\n").replace(env!("CARGO_PKG_VERSION"), "VERSION") + "\n"
}

#[test]
fn a_scripted_run_exposes_exactly_the_committed_text() {
    let metrics = metrics();
    let fleet = Fleet::run(&metrics);
    assert_committed("tests/golden/scripted_run.prom", &reproducible(&metrics.render()));
    drop(fleet);
}

#[test]
fn a_pool_that_served_nothing_shows_its_closed_sets_at_zero() {
    let metrics = metrics();
    let fleet = Fleet::join(&metrics);
    assert_committed("tests/golden/at_rest.prom", &reproducible(&metrics.render()));
    drop(fleet);
}

#[test]
fn the_catalogue_is_the_exposition() {
    let metrics = metrics();
    let fleet = Fleet::run(&metrics);
    let exposed = families(&metrics.render());

    let row = |row: &&&kvroute_metrics::Row| {
        let labels = row.labels.iter().map(|label| label.name.to_owned()).collect();
        let family = reader::Family { kind: row.kind.as_str().to_owned(), help: row.help.to_owned(), labels };
        (row.name.to_owned(), family)
    };
    let promised: BTreeMap<_, _> = CATALOGUE.iter().map(|entry| row(&entry)).collect();
    assert_eq!(exposed, promised);
    drop(fleet);
}

#[test]
fn every_label_value_is_of_its_closed_set() {
    let metrics = metrics();
    let fleet = Fleet::run(&metrics);
    let all = samples(&metrics.render());
    for row in CATALOGUE {
        for label in row.labels {
            let Values::Of(closed) = label.values else { continue };
            let seen: BTreeSet<&str> = all
                .iter()
                .filter(|sample| sample.family == row.name)
                .filter_map(|sample| sample.labels.get(label.name).map(String::as_str))
                .collect();
            let closed: BTreeSet<&str> = closed.iter().copied().collect();
            assert!(!seen.is_empty() && seen.is_subset(&closed), "{} {}: {seen:?}", row.name, label.name);
        }
    }
    drop(fleet);
}

#[test]
fn the_prefix_replaces_the_leading_word_of_every_standard_family_and_of_no_other() {
    let options = MetricsOptions { prefix: "acme".to_owned(), ..MetricsOptions::default() };
    let metrics = Metrics::new(&options).unwrap();
    let fleet = Fleet::run(&metrics);
    let text = metrics.render();
    assert!(!text.contains("dynamo"));
    let exposed: BTreeSet<String> = families(&text).into_keys().collect();
    let promised: BTreeSet<String> = CATALOGUE.iter().map(|row| row.exposed_name("acme")).collect();
    assert_eq!(exposed, promised);
    let standard = CATALOGUE.iter().filter(|row| row.group() == Group::Standard).count();
    assert_eq!(exposed.iter().filter(|name| name.starts_with("acme_")).count(), standard);
    drop(fleet);
}

#[test]
fn the_routers_own_prefix_can_be_the_standard_one() {
    let options = MetricsOptions { prefix: "kvroute".to_owned(), ..MetricsOptions::default() };
    let metrics = Metrics::new(&options).unwrap();
    let fleet = Fleet::run(&metrics);
    assert_eq!(families(&metrics.render()).len(), CATALOGUE.len());
    drop(fleet);
}

#[test]
fn constant_labels_are_on_every_series() {
    let pairs = [("router_id", "7"), ("dynamo_namespace", "prod")];
    let const_labels: BTreeMap<String, String> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let options = MetricsOptions { const_labels: const_labels.clone(), ..MetricsOptions::default() };
    let metrics = Metrics::new(&options).unwrap();
    let fleet = Fleet::run(&metrics);
    for sample in samples(&metrics.render()) {
        for (name, value) in &const_labels {
            assert_eq!(sample.labels.get(name), Some(value), "{sample:?}");
        }
    }
    drop(fleet);
}

#[test]
fn two_routers_in_one_process_know_nothing_of_each_other() {
    let (busy, idle) = (metrics(), metrics());
    let before = reproducible(&idle.render());
    let fleet = Fleet::run(&busy);
    assert_eq!(reproducible(&idle.render()), before);
    assert_ne!(reproducible(&busy.render()), before);
    drop(fleet);
}

#[test]
fn churn_of_models_and_workers_leaves_no_series() {
    let metrics = metrics();
    metrics.stages(Phase::Aggregated);
    let names = |text: &str| -> BTreeSet<String> {
        samples(text)
            .iter()
            .filter(|sample| !sample.name.starts_with("process_"))
            .map(reader::Sample::key)
            .collect()
    };
    let before = names(&metrics.render());
    for index in 0..1000 {
        let id = WorkerId::new(format!("worker-{index}"));
        let rank = WorkerRank::new(id.clone(), DpRank::new(index % 8));
        let worker = metrics.worker(&id, WorkerState::Ready);
        let ranks = metrics.rank(&rank, WorkerType::Decode);
        let source = metrics.source(&rank, SourceState::Exact);
        let model = ModelName::new(format!("model-{index}"));
        let pool = metrics.pool(&PoolLabels {
            model: &model,
            policy: "kv",
            reasons: &["lowest_cost"],
            shadows: &["random"],
            phases: &[Phase::Aggregated],
            counts_input: true,
            history: None,
        });
        let pending = script::one_attempt(&pool, &ranks);
        pool.index_budget_evicted(1);
        let remembered = metrics.remembered(&rank);
        pool.decided("a_late_reason");
        pool.shadow("a_late_shadow", Tokens::new(10), Tokens::ZERO);
        let identity = pool.identity(&id);
        pool.tokenizer_cache().looked_up(Tokens::new(10), Tokens::ZERO);
        pool.migrates();
        pool.stranded(Tokens::new(10));
        ranks.set_engine_load(1, 0);
        ranks.set_engine_load_age(Duration::ZERO);
        let in_line = pool.queue().entered();
        if index % 100 == 0 {
            assert!(names(&metrics.render()).len() > before.len());
        }
        drop((worker, ranks, source, remembered, identity, pool));
        drop((pending, in_line));
    }
    assert_eq!(names(&metrics.render()), before);
}

#[test]
fn an_attempt_that_outlives_its_worker_and_pool_is_harmless() {
    let metrics = metrics();
    let fleet = Fleet::join(&metrics);
    let ledger = fleet.open_attempt();
    drop(fleet);
    let reports =
        "kvroute_router_reuse_reports_total{model=\"alpha\",outcome=\"unfinished\",phase=\"aggregated\"}";
    assert_eq!(sample(&metrics.render(), reports), Some(0.0));
    assert!(!metrics.render().contains("worker_id=\"w1\""));
    drop(ledger);
    assert!(!metrics.render().contains("model=\"alpha\""));
}

#[test]
fn a_remembered_rank_has_a_state_and_blocks_but_no_series_of_an_event_stream() {
    let metrics = metrics();
    let rank = WorkerRank::new(WorkerId::new("w"), DpRank::new(0));
    let source = metrics.source(&rank, SourceState::Remembered);
    let families = || -> BTreeSet<String> {
        let of_rank =
            samples(&metrics.render()).into_iter().filter(|sample| sample.labels.contains_key("worker_id"));
        of_rank.map(|sample| sample.family).collect()
    };
    let known = ["kvroute_index_blocks", "kvroute_index_source_state"].map(str::to_owned);
    assert_eq!(families(), BTreeSet::from(known));
    drop(source);
    assert!(families().is_empty());
}

#[test]
fn what_nobody_looks_at_is_absent_and_not_zero() {
    let metrics = metrics();
    let model = ModelName::new("alpha");
    let labels = PoolLabels {
        model: &model,
        policy: "round-robin",
        reasons: &["turn"],
        shadows: &["random"],
        phases: &[Phase::Aggregated],
        counts_input: false,
        history: None,
    };
    let pool = metrics.pool(&labels);
    let pair = "{model=\"alpha\",phase=\"aggregated\"}";
    let value = |name: &str| sample(&metrics.render(), &format!("{name}{pair}"));
    let views = [
        "dynamo_component_router_input_sequence_tokens_sum",
        "dynamo_component_router_kv_best_eligible_cached_prefix_tokens_total",
        "dynamo_component_router_kv_selected_cached_prefix_tokens_total",
        "kvroute_router_best_cached_prefix_tokens_total",
    ];
    assert_eq!(views.map(value), [None; 4]);
    let of_the_ledger = || {
        let [lost, surplus] = [lost("unexplained"), surplus()];
        let compared = format!("kvroute_router_reuse_compared_predicted_tokens_total{pair}");
        [lost, surplus, compared, "kvroute_index_bytes{model=\"alpha\"}".to_owned()]
            .map(|key| sample(&metrics.render(), &key))
    };
    assert_eq!(of_the_ledger(), [None; 4]);
    assert_eq!(value("dynamo_component_router_kv_worker_reused_tokens_total"), Some(0.0));

    pool.index_view_exists();
    assert_eq!(views.map(value), [None, Some(0.0), Some(0.0), Some(0.0)]);
    assert_eq!(of_the_ledger(), [Some(0.0); 4]);
    let counted = metrics.pool(&PoolLabels { counts_input: true, ..labels });
    assert_eq!(value(views[0]), Some(0.0));
    drop((pool, counted));
}

#[test]
fn a_stage_is_occupied_while_its_guard_lives_and_timed_only_when_passed() {
    let metrics = metrics();
    let stages = metrics.stages(Phase::Aggregated);
    let labels = "{phase=\"aggregated\",stage=\"dispatch\"}";
    let value = |name: &str| sample(&metrics.render(), &format!("dynamo_frontend_{name}{labels}"));
    let (passed, abandoned) = (stages.enter(Stage::Dispatch), stages.enter(Stage::Dispatch));
    assert_eq!(value("stage_requests"), Some(2.0));
    passed.passed(Duration::from_millis(30));
    drop(abandoned);
    assert_eq!(value("stage_requests"), Some(0.0));
    assert_eq!(value("stage_duration_seconds_count"), Some(1.0));
    assert_eq!(value("stage_duration_seconds_sum"), Some(0.03));
}

#[test]
fn exactly_one_state_of_a_worker_and_of_a_source_is_current() {
    let metrics = metrics();
    let id = WorkerId::new("w");
    let rank = WorkerRank::new(id.clone(), DpRank::new(0));
    let worker = metrics.worker(&id, WorkerState::Starting);
    let source = metrics.source(&rank, SourceState::Blind);
    let current = |family: &str| -> Vec<(String, f64)> {
        let of_family = samples(&metrics.render()).into_iter().filter(|sample| sample.family == family);
        of_family
            .map(|sample| (sample.labels["state"].clone(), sample.value))
            .filter(|(_, value)| *value != 0.0)
            .collect()
    };
    for state in WorkerState::ALL {
        worker.set_state(state);
        assert_eq!(current("kvroute_worker_state"), [(state.as_str().to_owned(), 1.0)]);
    }
    for state in SourceState::ALL {
        source.set_state(state);
        assert_eq!(current("kvroute_index_source_state"), [(state.as_str().to_owned(), 1.0)]);
    }
}
