//! `kvroute metrics`: what it prints is what is committed, and follows the prefix.

use std::path::Path;

use kvroute_metrics::CATALOGUE;
use serde_json::Value;

use super::process::stdout;

fn committed(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&stdout(arguments)).unwrap()
}

#[test]
fn every_format_prints_what_is_committed() {
    for (format, path) in [
        ("markdown", "docs/metrics.md"),
        ("python", "python/kvroute_metrics/src/kvroute_metrics/__init__.py"),
        ("prometheus", "deploy/prometheus/kvroute-alerts.yml"),
    ] {
        let printed = stdout(&["metrics", "--format", format]);
        assert!(printed == committed(path), "{path} is stale: run `cargo xtask bless`");
    }
    for dashboard in ["funnel", "history", "workers", "traffic"] {
        let printed = stdout(&["metrics", "--format", "grafana", "--dashboard", dashboard]);
        let path = format!("deploy/grafana/{dashboard}.json");
        assert!(printed == committed(&path), "{path} is stale: run `cargo xtask bless`");
    }
}

#[test]
fn the_table_names_every_family_and_fits_a_terminal() {
    let table = stdout(&["metrics"]);
    for row in CATALOGUE {
        assert!(table.contains(row.name), "{}", row.name);
    }
    assert!(table.lines().all(|line| line.len() <= 80));
}

#[test]
fn the_json_has_every_field_of_every_row() {
    let rows = json(&["metrics", "--format", "json", "--prefix", "acme"]);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), CATALOGUE.len());
    for (object, row) in rows.iter().zip(CATALOGUE) {
        assert_eq!(object["name"], row.exposed_name("acme"));
        assert_eq!(object["type"], row.kind.as_str());
        assert_eq!(object["labels"].as_array().unwrap().len(), row.labels.len());
        assert_eq!(object["buckets"].as_array().unwrap().len(), row.buckets.len());
        for (field, text) in [
            ("unit", row.unit),
            ("help", row.help),
            ("population", row.population),
            ("moves", row.moves),
            ("zero", row.zero),
            ("act", row.act),
        ] {
            assert_eq!(object[field], text);
        }
        assert_eq!(object["differs"].as_str().unwrap_or_default(), row.differs);
    }
}

#[test]
fn without_a_name_all_dashboards_are_printed_by_name() {
    let dashboards = json(&["metrics", "--format", "grafana"]);
    let names: Vec<_> = dashboards.as_object().unwrap().keys().collect();
    assert_eq!(names, ["funnel", "history", "workers", "traffic"]);
    assert_eq!(dashboards["funnel"], json(&["metrics", "--format", "grafana", "--dashboard", "funnel"]));
}

#[test]
fn the_prefix_changes_the_standard_names_in_every_format() {
    for format in ["table", "markdown", "json", "grafana"] {
        let printed = stdout(&["metrics", "--format", format, "--prefix", "acme"]);
        assert!(printed.contains("acme_component_router_kv_worker_reused_tokens_total"), "{format}");
        assert!(!printed.contains("dynamo_component"), "{format}");
    }
    let module = stdout(&["metrics", "--format", "python", "--prefix", "acme"]);
    assert!(module.contains("DEFAULT_PREFIX: Final = \"acme\""));
}
