//! A history that nobody asked for leaves no trace in what is exported, and one that is there no more than its own families.

use std::collections::BTreeSet;

use kvroute_metrics::CATALOGUE;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Fleet, server_config};
use serde_json::json;

use super::exposition::series_of;

/// Only replicas that share have them.
const SHARED: [&str; 3] =
    ["kvroute_history_sync_messages_total", "kvroute_history_sync_dropped_total", "kvroute_cluster_peers"];

/// Only a router that keeps its history in a file has it.
const KEPT: &str = "kvroute_history_snapshot_seconds";

/// Families that are there, of those that are about a history.
async fn families(has_history: bool, policy: &str) -> BTreeSet<String> {
    let fleet = Fleet::start_with(vec![SimConfig::default()], |urls| {
        let mut config = server_config(urls, policy);
        config.router.pools[0].history.enabled = has_history;
        config
    });
    let fleet = fleet.await;
    let body = json!({"model": "sim", "prompt": (300..400).collect::<Vec<u32>>(), "max_tokens": 2});
    assert_eq!(fleet.client.post(&fleet.data("/v1/completions"), &body).await.status, 200);
    fleet.at_rest().await;
    let series = series_of(&fleet).await;
    let stages = ["new", "residency"].map(str::to_owned);
    for series in series.iter().filter(|_| !has_history) {
        assert!(series.labels.get("stage").is_none_or(|stage| !stages.contains(stage)), "{series:?}");
    }
    fleet.stop().await;
    series.into_iter().map(|series| series.name).filter(|name| is_of_history(name)).collect()
}

fn is_of_history(name: &str) -> bool {
    ["history", "cache_loss", "kvroute_cluster"].iter().any(|part| name.contains(part))
}

#[tokio::test]
async fn without_a_history_a_router_exports_nothing_of_one() {
    assert_eq!(families(false, "kv").await, BTreeSet::new());
}

#[tokio::test]
async fn a_history_without_an_index_to_ask_is_none() {
    assert_eq!(families(true, "round-robin").await, BTreeSet::new());
}

/// The age of what it learned is shown with the next refresh, so it may be there or not.
#[tokio::test]
async fn with_a_history_a_router_exports_all_of_it_but_what_takes_more() {
    let takes_more = |name: &&str| SHARED.contains(name) || *name == KEPT;
    let age = "kvroute_history_oldest_entry_age_seconds";
    let names = CATALOGUE.iter().map(|row| row.name).filter(|name| is_of_history(name));
    let expected: BTreeSet<_> =
        names.filter(|name| !takes_more(name) && *name != age).map(str::to_owned).collect();
    let mut families = families(true, "kv").await;
    families.remove(age);
    assert_eq!(families, expected);
}
