//! The history: how far what was computed before is known, and whether replicas know it together.
//!
//! None of it exists where no pool has a history, and nothing of the sharing where replicas do not share.

use kvroute_metrics::rows;

use super::{Dashboard, Panel, Section, Unit};
use crate::query::Spelling;

/// Each router has a history of its own.
const HISTORY: [&str; 2] = ["instance", "model"];
const LEGEND: &str = "{{model}} {{instance}}";

/// The history's dashboard.
pub(super) fn dashboard(spelling: &Spelling) -> Dashboard {
    Dashboard {
        name: "history",
        title: "kvroute: history",
        about: "What is known of everything that was ever computed, how far back, and whether replicas know it together. \
                Nothing is shown where no pool has a history.",
        sections: vec![
            Section::new("What it observes", observed(spelling)),
            Section::new("How much it holds", held(spelling)),
            Section::new("Replicas", replicas(spelling)),
        ],
    }
}

fn observed(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::lines("Observed input, and what of it was known", Unit::TokensPerSecond)
            .says(
                "Input of the attempts that a history was asked about, and the part that some request had computed before, \
                 over all models. It is a ceiling: whether any cache still has it is another question.",
            )
            .shows("observed", spelling.rate(rows::HISTORY_OBSERVED_INPUT).sum())
            .shows("computed before", spelling.rate(rows::HISTORY_CACHED).sum()),
        Panel::stacked("Observations", Unit::PerSecond)
            .says(
                "One an observed attempt. incomplete: it failed, its client left, or one of its choices failed, so that \
                 what it computed is not known to the history.",
            )
            .shows("{{result}}", spelling.rate(rows::HISTORY_OBSERVATIONS).sum_by(&["result"])),
        Panel::lines("Generated tokens that were not learned", Unit::TokensPerSecond)
            .says(
                "Their ids did not come. The next turn of a conversation repeats the answer, and that part of it counts as \
                 new: see pool.history.outputs.",
            )
            .shows("{{model}}", spelling.rate(rows::HISTORY_UNTRACKED_OUTPUT).sum_by(&["model"])),
        Panel::lines("Time to write a snapshot", Unit::Seconds)
            .says("Nothing is shown where pool.history.snapshot names no file. Long: a large history on a slow disk.")
            .shows(LEGEND, spelling.now(rows::HISTORY_SNAPSHOT_SECONDS).max_by(&HISTORY)),
    ]
}

fn held(spelling: &Spelling) -> Vec<Panel> {
    let of_router = |row| spelling.now(row).max_by(&["instance"]);
    vec![
        Panel::lines("Blocks, and room for blocks", Unit::Blocks)
            .says("All histories of a router. At the capacity the oldest blocks are forgotten: see the age beside it.")
            .shows("known {{instance}}", of_router(rows::HISTORY_UNIQUE_HASHES))
            .shows("room {{instance}}", of_router(rows::HISTORY_CAPACITY_BLOCKS)),
        Panel::lines("Age of the oldest block", Unit::Seconds)
            .says(
                "How far back the history reaches. It rises as long as there is room. Flat, and shorter than the time after \
                 which prompts come again: raise pool.history.bytes.",
            )
            .shows(LEGEND, spelling.now(rows::HISTORY_OLDEST_ENTRY_AGE).max_by(&HISTORY)),
        Panel::lines("Tokens that are known", Unit::Tokens)
            .says(
                "Tokens of the known blocks. Less than what the caches of the fleet hold: the history is too small to say \
                 what they lose.",
            )
            .shows("{{instance}}", of_router(rows::HISTORY_REPRESENTED_TOKENS)),
        Panel::lines("Memory, and the bound", Unit::Bytes)
            .says("All histories of a router. The memory never exceeds the bound (pool.history.bytes).")
            .shows("held {{instance}}", of_router(rows::HISTORY_ESTIMATED_BYTES))
            .shows("bound {{instance}}", of_router(rows::HISTORY_CAPACITY_BYTES)),
    ]
}

fn replicas(spelling: &Spelling) -> Vec<Panel> {
    vec![
        Panel::bands("Sharing", Unit::Count)
            .says(
                "1 while a router's history is in a state. off: it knows only what it served itself, so that with several \
                 routers too little counts as computed before. degraded: the same while it lasts.",
            )
            .shows("{{instance}} {{state}}", spelling.now(rows::HISTORY_SHARING).max_by(&["instance", "state"])),
        Panel::lines("Messages", Unit::PerSecond)
            .says(
                "Between the replicas, by what became of them. own is natural. other_domain: a replica has another model, \
                 block size or scheme. lost: the transport dropped updates. Nothing is shown where nothing is shared.",
            )
            .shows(
                "{{direction}} {{result}}",
                spelling.rate(rows::HISTORY_SYNC_MESSAGES).sum_by(&["direction", "result"]),
            ),
        Panel::lines("Messages that were never sent", Unit::PerSecond)
            .says("Too many waited: the transport is down or slow, and the others do not learn what this replica learned.")
            .shows("{{instance}}", spelling.rate(rows::HISTORY_SYNC_DROPPED).sum_by(&["instance"])),
        Panel::lines("Other replicas", Unit::Count)
            .says("How many others each replica hears. Less than there are: another subject, or another server.")
            .shows("{{instance}}", spelling.now(rows::CLUSTER_PEERS).max_by(&["instance"])),
    ]
}
