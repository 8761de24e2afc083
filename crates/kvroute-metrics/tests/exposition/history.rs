//! The history as a scraper sees it: absent unless a pool has one, and then an account that closes.

use std::collections::{BTreeMap, BTreeSet};

use kvroute_core::{Phase, SharingState};
use kvroute_funnel::Close;
use kvroute_metrics::Metrics;

use crate::reader::{self, families, sample, samples};
use crate::script::remembering::{Remembering, levels};
use crate::script::{Fleet, metrics};
use crate::{assert_committed, reproducible};

const F1: &str = "dynamo_component_router_kv_history_cached_prefix_tokens_total";
const OBSERVED: &str = "dynamo_component_router_cache_loss_observation_input_tokens_total";
const LOST: &str = "kvroute_router_reuse_lost_tokens_total";

/// Of the sharing, which takes more than a history.
const SHARED: [&str; 3] =
    ["kvroute_cluster_peers", "kvroute_history_sync_dropped_total", "kvroute_history_sync_messages_total"];

/// Families that exist, but for those that a history has besides.
fn exposed(metrics: &Metrics) -> BTreeSet<String> {
    families(&metrics.render()).into_keys().collect()
}

fn is_of_history(family: &str) -> bool {
    family.contains("history") || family.contains("cache_loss") || family.contains("cluster")
}

/// The value of a family, summed over the series with these labels; `None` without any.
fn sum(metrics: &Metrics, family: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has = |sample: &reader::Sample| {
        labels.iter().all(|(name, value)| sample.labels.get(*name).map(String::as_str) == Some(value))
    };
    let all = samples(&metrics.render()).into_iter().filter(|sample| sample.name == family && has(sample));
    all.map(|sample| sample.value).reduce(|total, value| total + value)
}

fn gauges(metrics: &Metrics) -> [Option<f64>; 5] {
    let names =
        ["unique_hashes", "represented_tokens", "estimated_bytes", "capacity_blocks", "capacity_bytes"];
    names.map(|name| sum(metrics, &format!("dynamo_component_router_cache_loss_history_{name}"), &[]))
}

#[test]
fn without_a_history_none_of_its_families_is_registered() {
    let metrics = metrics();
    let fleet = Fleet::join(&metrics);
    assert_eq!(exposed(&metrics).iter().filter(|family| is_of_history(family)).count(), 0);
    assert_eq!(sum(&metrics, LOST, &[("stage", "new")]), None);
    assert_eq!(sum(&metrics, LOST, &[("stage", "residency")]), None);
    let surplus = "kvroute_router_reuse_surplus_tokens_total";
    assert_eq!(sum(&metrics, surplus, &[("stage", "residency")]), None);
    drop(fleet);
}

#[test]
fn a_pool_without_a_history_beside_one_with_it_has_no_stage_that_needs_it() {
    let metrics = metrics();
    let (without, with) = (Fleet::join(&metrics), Remembering::join(&metrics, "beta"));
    let text = metrics.render();
    let stages = |model: &str| -> BTreeSet<String> {
        let of_model = samples(&text).into_iter().filter(|sample| {
            sample.family == LOST && sample.labels["model"] == model && sample.labels["phase"] == "aggregated"
        });
        of_model.map(|sample| sample.labels["stage"].clone()).collect()
    };
    let common = ["delivery", "eligibility", "placement", "unavailable"].map(str::to_owned);
    assert_eq!(stages("alpha"), BTreeSet::from(common.clone()));
    assert_eq!(stages("beta"), common.into_iter().chain(["new", "residency"].map(str::to_owned)).collect());
    let by_model = "kvroute_router_history_cached_tokens_total";
    assert_eq!(sum(&metrics, by_model, &[("model", "alpha")]), None);
    assert_eq!(sum(&metrics, by_model, &[("model", "beta")]), Some(0.0));
    drop((without, with));
}

/// What a history brings, series by series; everything else stays as it was.
#[test]
fn a_history_adds_exactly_the_committed_series() {
    let lines = |fleet: fn(&Metrics) -> Remembering| -> BTreeSet<String> {
        let metrics = metrics();
        let fleet = fleet(&metrics);
        let lines = reproducible(&metrics.render()).lines().map(str::to_owned).collect();
        drop(fleet);
        lines
    };
    let without = lines(|metrics| Remembering::without_history(metrics, "beta"));
    let with = lines(|metrics| Remembering::join(metrics, "beta"));
    assert_eq!(without.difference(&with).collect::<Vec<_>>(), [""; 0]);
    let added: Vec<_> = with.difference(&without).map(|line| format!("{line}\n")).collect();
    assert_committed("tests/golden/history_at_rest.prom", &added.concat());
}

#[test]
fn the_account_of_a_history_closes_and_nothing_is_unavailable() {
    let metrics = metrics();
    let fleet = Remembering::run(&metrics, "beta");
    for (phase, history, [residency, surplus]) in
        [("aggregated", 928.0, [288.0, 0.0]), ("prefill", 480.0, [0.0, 160.0])]
    {
        let labels = [("phase", phase), ("model", "beta")];
        let value = |family: &str| sum(&metrics, family, &labels).unwrap();
        let lost = |stage| sum(&metrics, LOST, &[labels[0], labels[1], ("stage", stage)]).unwrap();
        let by_reason = |stage, reason| {
            sum(&metrics, LOST, &[labels[0], labels[1], ("stage", stage), ("reason", reason)]).unwrap()
        };
        assert_eq!(value("kvroute_router_history_cached_tokens_total"), history);
        let input = value("kvroute_router_ledger_input_tokens_total");
        let anywhere = value("kvroute_router_best_cached_prefix_tokens_total");
        let labels = [labels[0], labels[1], ("stage", "residency")];
        let told = sum(&metrics, "kvroute_router_reuse_surplus_tokens_total", &labels).unwrap();
        assert_eq!((lost("residency"), told), (residency, surplus));
        assert_eq!((input, lost("unavailable")), (lost("new") + history, 0.0));
        assert_eq!(input + told, lost("new") + lost("residency") + anywhere);
        assert_eq!(by_reason("new", "partial_block"), 8.0);
        assert_eq!(by_reason("residency", "evicted") + by_reason("residency", "unknown"), residency);
    }
    let seconds = |stage| {
        let labels = [("stage", stage), ("model", "beta")];
        sum(&metrics, "kvroute_router_lost_prefill_seconds_total", &labels).unwrap()
    };
    assert!((seconds("residency") - 0.288).abs() < 1e-9, "{}", seconds("residency"));
    assert!((seconds("new") - 0.592).abs() < 1e-9, "{}", seconds("new"));
    drop(fleet);
}

#[test]
fn what_was_observed_is_one_population_over_all_models() {
    let metrics = metrics();
    let fleets = ["beta", "gamma"].map(|model| Remembering::join(&metrics, model));
    assert_eq!((sum(&metrics, F1, &[]), sum(&metrics, OBSERVED, &[])), (Some(0.0), Some(0.0)));
    let open = fleets.each_ref().map(|fleet| fleet.attempt(Phase::Aggregated, 320));
    assert_eq!((sum(&metrics, F1, &[]), sum(&metrics, OBSERVED, &[])), (Some(640.0), Some(2000.0)));
    let by_model = sum(&metrics, "kvroute_router_history_cached_tokens_total", &[]);
    assert_eq!(by_model, Some(640.0));
    let results = || {
        ["complete", "incomplete"].map(|result| {
            let labels = [("result", result)];
            sum(&metrics, "dynamo_component_router_cache_loss_observations_total", &labels).unwrap()
        })
    };
    assert_eq!(results(), [0.0, 0.0], "open attempts have no result");
    let [mut learned, cancelled] = open;
    learned.taught();
    drop(learned.close(Close::Completed));
    assert_eq!(results(), [1.0, 0.0]);
    drop(cancelled);
    assert_eq!(results(), [1.0, 1.0]);
    drop(fleets);
    assert_eq!(sum(&metrics, F1, &[]), Some(640.0), "what all pools share stays when they go");
}

#[test]
fn a_pool_that_goes_takes_exactly_its_part_of_the_sums_along() {
    let metrics = metrics();
    let [beta, gamma] = ["beta", "gamma"].map(|model| Remembering::join(&metrics, model));
    assert_eq!(gauges(&metrics), [0.0, 0.0, 0.0, 2000.0, 32_768.0].map(Some));
    let show = |fleet: &Remembering, blocks| fleet.pool().history().unwrap().show(&levels(blocks, None));
    show(&beta, 700);
    show(&gamma, 40);
    show(&gamma, 50);
    assert_eq!(gauges(&metrics), [750.0, 12_000.0, 24_000.0, 2000.0, 32_768.0].map(Some));
    drop(beta);
    assert_eq!(gauges(&metrics), [50.0, 800.0, 12_000.0, 1000.0, 16_384.0].map(Some));
    let again = Remembering::join(&metrics, "gamma");
    show(&again, 5);
    assert_eq!(gauges(&metrics)[0], Some(55.0), "a pool that replaces another holds its own beside it");
    drop(gamma);
    assert_eq!(gauges(&metrics), [5.0, 80.0, 12_000.0, 1000.0, 16_384.0].map(Some));
    drop(again);
    assert_eq!(gauges(&metrics), [Some(0.0); 5]);
}

#[test]
fn an_age_and_a_snapshot_that_do_not_exist_are_absent_and_not_zero() {
    let metrics = metrics();
    let fleet = Remembering::join(&metrics, "beta");
    let (age, snapshot) = ("kvroute_history_oldest_entry_age_seconds", "kvroute_history_snapshot_seconds");
    let told = || [age, snapshot].map(|family| sum(&metrics, family, &[("model", "beta")]));
    assert_eq!(told(), [None, None]);
    let history = fleet.pool().history().unwrap();
    history.show(&levels(3, Some(70)));
    history.snapshot_written(std::time::Duration::from_millis(1500));
    assert_eq!(told(), [Some(70.0), Some(1.5)]);
    history.show(&levels(0, None));
    assert_eq!(told(), [None, Some(1.5)], "an emptied history has no oldest entry");
    history.show(&levels(1, Some(0)));
    assert_eq!(told(), [Some(0.0), Some(1.5)]);
    drop(fleet);
    assert_eq!(told(), [None, None]);
}

#[test]
fn a_history_that_nobody_shares_says_so_and_has_no_family_of_the_sharing() {
    let metrics = metrics();
    let fleet = Remembering::join(&metrics, "beta");
    let states = || -> BTreeMap<&str, Option<f64>> {
        let state = |state: &'static str| {
            (state, sample(&metrics.render(), &format!("kvroute_history_sharing{{state=\"{state}\"}}")))
        };
        ["off", "on", "degraded"].map(state).into()
    };
    let only = |current: &str| -> BTreeMap<&str, Option<f64>> {
        let value = |state: &'static str| (state, Some(if state == current { 1.0 } else { 0.0 }));
        ["off", "on", "degraded"].map(value).into()
    };
    assert_eq!(states(), only("off"));
    assert_eq!(SHARED.map(|family| exposed(&metrics).contains(family)), [false; 3]);
    let sharing = metrics.sharing();
    assert_eq!(SHARED.map(|family| exposed(&metrics).contains(family)), [true; 3]);
    assert_eq!(states(), only("off"), "until the connection stands");
    for state in SharingState::ALL {
        sharing.state(state);
        assert_eq!(states(), only(state.as_str()));
    }
    sharing.dropped(3);
    drop(sharing);
    metrics.sharing().dropped(4);
    assert_eq!(sum(&metrics, SHARED[1], &[]), Some(7.0), "counters of a router last as long as it does");
    drop(fleet);
}

#[test]
fn churn_of_models_with_a_history_leaves_no_series() {
    let metrics = metrics();
    drop(Fleet::run(&metrics));
    let names = |text: &str| -> BTreeSet<String> {
        let all = samples(text).into_iter().filter(|sample| !sample.name.starts_with("process_"));
        all.map(|sample| sample.key()).collect()
    };
    let before = names(&metrics.render());
    for number in 0..200 {
        let model = format!("model-{number}");
        let fleet = Remembering::run(&metrics, &model);
        let open = fleet.attempt(Phase::Prefill, 16);
        if number % 50 == 0 {
            assert!(names(&metrics.render()).iter().any(|name| name.contains(&model)));
        }
        drop(fleet);
        drop(open);
    }
    assert_eq!(names(&metrics.render()), before);
    assert_eq!(gauges(&metrics), [Some(0.0); 5]);
}
