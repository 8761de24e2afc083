//! What is committed is what the catalogue gives, and it holds together.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up must fail")]

mod cases;
mod rule_tests;
mod runbooks;
mod shape;

use std::path::{Path, PathBuf};

use kvroute_monitoring::{alert_groups, dashboards, documentation, python_module, render_rules};

const PREFIX: &str = "dynamo";

fn in_checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Compares with a committed file, or writes it when `KVROUTE_BLESS=1`.
fn assert_committed(path: &str, text: &str) {
    let file = in_checkout(path);
    if std::env::var_os("KVROUTE_BLESS").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{path} is stale: run `cargo xtask bless` and review what it changed");
}

#[test]
fn the_page_of_documentation_is_fresh() {
    assert_committed("docs/metrics.md", &documentation(PREFIX));
}

#[test]
fn the_dashboards_are_fresh() {
    for dashboard in dashboards(PREFIX) {
        assert_committed(&format!("deploy/grafana/{}.json", dashboard.name()), &dashboard.to_json());
    }
}

#[test]
fn no_dashboard_is_left_over() {
    let names: Vec<_> =
        dashboards(PREFIX).iter().map(|dashboard| format!("{}.json", dashboard.name())).collect();
    for entry in std::fs::read_dir(in_checkout("deploy/grafana")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "deploy/grafana/{name} is no dashboard of the generator; remove it");
    }
}

#[test]
fn the_alert_rules_are_fresh() {
    assert_committed("deploy/prometheus/kvroute-alerts.yml", &render_rules(&alert_groups(PREFIX)));
}

#[test]
fn the_tests_of_the_alert_rules_are_fresh() {
    let groups = alert_groups(PREFIX);
    assert_committed(
        "deploy/prometheus/kvroute-alerts.test.yml",
        &rule_tests::render(&groups, &cases::all(), &cases::silent_without_series()),
    );
}

#[test]
fn the_python_module_is_fresh() {
    assert_committed("python/kvroute_metrics/src/kvroute_metrics/__init__.py", &python_module(PREFIX));
}
