//! What the dashboards must have, whatever they show.

use std::collections::BTreeSet;

use kvroute_metrics::CATALOGUE;
use kvroute_monitoring::{Query, dashboards};
use serde_json::Value;

use crate::PREFIX;

#[test]
fn every_panel_says_what_it_means_and_asks_something() {
    for dashboard in dashboards(PREFIX) {
        let mut titles = BTreeSet::new();
        for panel in dashboard.panels() {
            assert!(panel.about().len() > 20, "{}: {}", dashboard.name(), panel.title());
            assert!(panel.queries().count() > 0, "{}: {}", dashboard.name(), panel.title());
            assert!(titles.insert(panel.title()), "{} has two panels {}", dashboard.name(), panel.title());
        }
    }
}

#[test]
fn every_family_is_on_a_dashboard() {
    let dashboards = dashboards(PREFIX);
    let queries =
        dashboards.iter().flat_map(|dashboard| dashboard.panels()).flat_map(|panel| panel.queries());
    let shown: BTreeSet<&str> = queries.flat_map(Query::families).collect();
    for row in CATALOGUE {
        let name = row.name;
        assert!(
            shown.contains(name),
            "{name} is on no dashboard; add it to crates/kvroute-monitoring/src/dashboards"
        );
    }
}

#[test]
fn panels_fill_the_grid_and_do_not_overlap() {
    for dashboard in dashboards(PREFIX) {
        let json: Value = serde_json::from_str(&dashboard.to_json()).unwrap();
        let (mut taken, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for panel in json["panels"].as_array().unwrap() {
            assert!(ids.insert(panel["id"].as_u64().unwrap()));
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{panel}");
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{panel}");
                }
            }
        }
    }
}

#[test]
fn every_query_goes_to_the_chosen_data_source_and_is_narrowed_by_the_variables() {
    for dashboard in dashboards(PREFIX) {
        let text = dashboard.to_json();
        let json: Value = serde_json::from_str(&text).unwrap();
        let names: Vec<_> =
            json["templating"]["list"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        assert_eq!(names, ["datasource", "model", "phase", "worker"]);
        for panel in json["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                assert_eq!(target["datasource"]["uid"], "${datasource}");
                let query = target["expr"].as_str().unwrap();
                assert!(!query.contains("model=\"") && !query.contains("worker_id=\""), "{query}");
            }
        }
        for variable in json["templating"]["list"].as_array().unwrap().iter().skip(1) {
            let matcher = format!("=~\"${}\"", variable["name"].as_str().unwrap());
            let is_used = dashboard
                .panels()
                .flat_map(|panel| panel.queries())
                .any(|query| query.text().contains(&matcher));
            assert_eq!(variable["hide"] == 0, is_used, "{}: {variable}", dashboard.name());
        }
    }
}

#[test]
fn another_prefix_changes_every_standard_name() {
    for dashboard in dashboards("acme") {
        assert!(!dashboard.to_json().contains("dynamo_"), "{}", dashboard.name());
    }
    assert!(
        dashboards("acme").iter().any(|dashboard| dashboard.to_json().contains("acme_component_router_"))
    );
}
