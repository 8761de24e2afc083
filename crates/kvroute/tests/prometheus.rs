//! A real Prometheus scrapes a real router, and everything that is generated from the catalogue is asked of it.
//!
//! The router serves simulated engines through a scripted run that moves every family there is. Then the funnel that
//! Prometheus shows must be what the engines counted, and every query of every panel and every value of every alert must
//! return data: a panel that says "no data" for good is a fault of the panel.
//!
//! It does so twice: with a history that replicas share, and without one, when nothing of a history may exist.
//!
//! `KVROUTE_PROMETHEUS`, `KVROUTE_PROMTOOL` and `KVROUTE_NATS_SERVER` name the programs. Without them the tests are skipped with a line that says
//! so, unless `KVROUTE_REQUIRE_PEERS=1`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test code: it fails by panicking, and awaits every request that it sends"
)]

mod prometheus {
    pub(crate) mod catalogue;
    pub(crate) mod database;
    pub(crate) mod faults;
    pub(crate) mod funnel;
    pub(crate) mod needs;
    pub(crate) mod promtool;
    pub(crate) mod replica;
    pub(crate) mod traffic;
    pub(crate) mod world;
}

use std::collections::BTreeSet;

use kvroute_monitoring::{AlertGroup, Dashboard, alert_groups, dashboards, render_rules};

use prometheus::database::Database;
use prometheus::replica::Nats;
use prometheus::world::World;
use prometheus::{catalogue, faults, funnel, needs, promtool, replica, traffic};

#[tokio::test]
async fn every_dashboard_and_every_alert_has_data_and_the_funnel_is_what_the_engines_counted() {
    if prometheus::database::is_there() && Nats::is_there() {
        prove(World::start("dynamo", Some(Nats::start().await)).await).await;
    }
}

#[tokio::test]
async fn another_prefix_changes_nothing_but_names_and_without_a_history_nothing_of_it_exists() {
    if prometheus::database::is_there() {
        prove(World::start("acme", None).await).await;
    }
}

async fn prove(world: World) {
    let (prefix, has_history) = (world.prefix().to_owned(), world.nats.is_some());
    let prefix = prefix.as_str();
    let database = Database::start(&world.admin_address(), &render_rules(&alert_groups(prefix))).await;
    database.until("sum(up)", |value| value == 1.0).await;
    catalogue::everything_known_is_at_zero(&world.scrape().await, prefix, has_history);

    traffic::clean(&world).await;
    database.shows_what(&world).await;
    funnel::is_what_the_engines_counted(&world, &database).await;

    let mut world = faults::all(world, &database).await;
    replica::come_and_go(&mut world, &database).await;
    database.shows_what(&world).await;
    promtool::finds_nothing_but_abbreviated_units(&world.exposition().await, prefix);
    catalogue::every_family_moved(&database, prefix, has_history).await;
    if !has_history {
        catalogue::nothing_of_a_history_exists(&database, prefix).await;
    }
    every_panel_has_data(&database, prefix, has_history).await;
    every_alert_has_data(&database, prefix, has_history).await;
    database.evaluates_every_rule(&alert_groups(prefix)).await;
    drop(database);
    world.stop().await;
}

/// What needs a history has data exactly where there is one.
async fn every_panel_has_data(database: &Database, prefix: &str, has_history: bool) {
    let mut wrong = Vec::new();
    for dashboard in dashboards(prefix) {
        for panel in dashboard.panels() {
            for query in panel.queries() {
                let is_due = has_history || !needs::history_to_answer(query);
                if database.has_data(&as_grafana_asks(query.text())).await != is_due {
                    wrong.push(format!("{}: {}: {}", dashboard.name(), panel.title(), query.text()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "panels without data, or with data of nothing:\n{}", wrong.join("\n"));
    for (name, query, label) in Dashboard::variables() {
        let values = database.label_values(query.text(), label).await;
        assert!(!values.is_empty(), "the variable {name} has no values");
    }
}

/// Every variable set to all, and a window that holds the whole run.
fn as_grafana_asks(query: &str) -> String {
    let all = ["$model", "$phase", "$worker"]
        .iter()
        .fold(query.to_owned(), |query, name| query.replace(name, ".*"));
    let query = all.replace("$__rate_interval", "10m").replace("$__range", "10m");
    assert!(!query.contains('$'), "{query}");
    query
}

/// A rule that never has a value never fires; in good health the value must be there and the comparison false.
async fn every_alert_has_data(database: &Database, prefix: &str, has_history: bool) {
    let mut without = BTreeSet::new();
    let groups = alert_groups(prefix);
    let alerts = groups.iter().flat_map(AlertGroup::alerts);
    for (alert, condition) in alerts.flat_map(|alert| alert.conditions().iter().map(move |one| (alert, one)))
    {
        let query = condition.value().text();
        let has_data = database.has_data(query).await;
        let is_there = has_history || !needs::history_to_answer(condition.value());
        // That a router is absent can only be seen where none is.
        if has_data != (condition.has_limit() && is_there) {
            without.insert(format!("{}: {query}", alert.name()));
        }
    }
    assert!(without.is_empty(), "alerts whose value is not there: {without:#?}");
}
