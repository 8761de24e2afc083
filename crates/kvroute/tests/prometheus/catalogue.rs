//! The catalogue against what is exported: everything known is at zero before anything happens, and everything moves.

use std::collections::BTreeSet;

use kvroute_metrics::{CATALOGUE, Group, Kind, Row, Values, rows};
use kvroute_testkit::Exposition;

use super::database::Database;
use super::needs;

/// Families that nothing in the scripted run can move, and why.
const UNMOVED: [(&Row, &str); 1] =
    [(rows::CONFIG_RELOADS, "the router is given no other configuration while it runs")];

/// Counters that are not at zero when a router has just started, and why.
const BUSY_FROM_THE_START: [(&Row, &str); 3] = [
    (rows::IDENTITY_CHECKS, "a worker that joins is asked for the ids of some prompts"),
    (rows::INDEX_REPLAYS, "a source asks for what was published before it joined"),
    (rows::HISTORY_SYNC_MESSAGES, "a replica says that it is there"),
];

/// Labels of which a pool has only some values: it has its phases and its kind of workers.
const PARTIAL_LABELS: [&str; 2] = ["phase", "worker_type"];

/// The families that a router has with a history or without one; without one it has none of the others.
fn of_a_router(has_history: bool) -> impl Iterator<Item = &'static Row> {
    CATALOGUE.iter().copied().filter(move |row| has_history || !needs::history(row))
}

/// Nothing that needs a history is known to the database.
pub(crate) async fn nothing_of_a_history_exists(database: &Database, prefix: &str) {
    for row in CATALOGUE.iter().filter(|row| needs::history(row)) {
        let known = database.metadata(&row.exposed_name(prefix)).await;
        assert_eq!(known, (String::new(), String::new()), "{}", row.name);
    }
}

/// Before any traffic every series with label values that are known exists, and counts nothing.
pub(crate) fn everything_known_is_at_zero(scrape: &Exposition, prefix: &str, has_history: bool) {
    for row in of_a_router(has_history).filter(|row| row.group() != Group::Process && row.kind != Kind::Gauge)
    {
        let part = if row.kind == Kind::Histogram { "_count" } else { "" };
        let series = scrape.family(&format!("{}{part}", row.exposed_name(prefix)));
        assert!(!series.is_empty(), "{} does not exist before traffic", row.name);
        let is_busy = BUSY_FROM_THE_START.iter().any(|(busy, _)| busy.name == row.name);
        assert!(
            is_busy || series.iter().all(|(_, value)| *value == 0.0),
            "{} is not at zero: {series:?}",
            row.name
        );
        for label in row.labels.iter().filter(|label| !PARTIAL_LABELS.contains(&label.name)) {
            let Values::Of(closed) = label.values else { continue };
            let seen: BTreeSet<&str> = series.iter().map(|(labels, _)| labels[label.name].as_str()).collect();
            let known = closed.iter().copied();
            let known = known.filter(|value| has_history || !needs::history_to_be(row, value));
            assert_eq!(seen, known.collect(), "{} {}", row.name, label.name);
        }
    }
}

/// What is exported and never moves would be a promise that nobody keeps.
pub(crate) async fn every_family_moved(database: &Database, prefix: &str, has_history: bool) {
    let mut still = Vec::new();
    for row in of_a_router(has_history) {
        let (kind, help) = database.metadata(&row.exposed_name(prefix)).await;
        assert_eq!((kind.as_str(), help.as_str()), (row.kind.as_str(), row.help), "{}", row.name);
        let has_moved = database.largest(row, prefix).await > 0.0;
        let is_excused = UNMOVED.iter().any(|(unmoved, _)| unmoved.name == row.name);
        if has_moved == is_excused {
            still.push(row.name);
        }
    }
    assert!(still.is_empty(), "families that did not move, or moved though they are said not to: {still:#?}");
}
