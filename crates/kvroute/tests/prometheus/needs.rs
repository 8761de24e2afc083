//! What exists only where some pool has a history.

use kvroute_metrics::Row;
use kvroute_monitoring::Query;

/// Stages and reasons of the loss ledger that it takes a history to know of.
const OF_THE_LEDGER: [&str; 4] = ["new", "residency", "unseen", "unknown"];

/// Whether a family is about the history, or about who shares it.
pub(crate) fn history(row: &Row) -> bool {
    is_of_history(row.name)
}

/// Whether a label value of a family for all needs it.
pub(crate) fn history_to_be(row: &Row, value: &str) -> bool {
    row.name.contains("lost") && OF_THE_LEDGER.contains(&value)
        || row.name.contains("surplus") && value == "residency"
}

/// Whether a query asks for anything of it.
pub(crate) fn history_to_answer(query: &Query) -> bool {
    let asks_stage = ["stage=\"new\"", "stage=~\"new|residency\"", "stage=\"residency\""];
    query.families().iter().any(|name| is_of_history(name))
        || asks_stage.iter().any(|matcher| query.text().contains(matcher))
}

fn is_of_history(name: &str) -> bool {
    ["history", "cache_loss", "kvroute_cluster"].iter().any(|part| name.contains(part))
}
