//! The history: too small to be of use, or not the whole fleet's.

use kvroute_metrics::{SharingState, rows};

use super::{Alert, Severity};
use crate::query::{Query, Spelling};

const HISTORY: [&str; 2] = ["instance", "model"];

/// What comes again later than this, in seconds, is rare among conversations.
const USEFUL_AGE: f64 = 3600.0;

/// An oldest entry that is not replaced ages by 900 seconds within a quarter of an hour.
const AGED: f64 = 600.0;

pub(super) fn alerts(spelling: &Spelling) -> Vec<Alert> {
    vec![too_small(spelling), alone(spelling), degraded(spelling), dropping(spelling)]
}

/// A young history with room is only young. One that evicts has an oldest entry that gets no older.
fn too_small(spelling: &Spelling) -> Alert {
    let age = || spelling.series(rows::HISTORY_OLDEST_ENTRY_AGE);
    Alert::new("KvrouteHistoryTooSmall", Severity::Warning, "30m")
        .when(age().now().max_by(&HISTORY), "<", USEFUL_AGE)
        .when(age().within("15m").delta().max_by(&HISTORY), "<", AGED)
        .says(
            "the history of {{ $labels.model }} reaches back only {{ $value | humanizeDuration }}",
            "Router {{ $labels.instance }} forgets what was computed for model {{ $labels.model }} after \
             {{ $value | humanizeDuration }}, because its history is full. What comes again later counts as new: F1 and the \
             losses of stage residency are too low.",
        )
}

fn alone(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteHistoryAlone", Severity::Warning, "15m")
        .when(state(spelling, SharingState::Off).sum_by(&["job"]), ">", 1.0)
        .says(
            "{{ $value }} routers of {{ $labels.job }} have a history each and do not share it",
            "{{ $value }} routers of job {{ $labels.job }} each know only what they served themselves. A prompt that another \
             one has served counts as new: F1 and the losses of stage residency are too low.",
        )
}

fn degraded(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteHistorySharingDegraded", Severity::Warning, "5m")
        .when(state(spelling, SharingState::Degraded).max_by(&["instance"]), "==", 1.0)
        .says(
            "{{ $labels.instance }} does not learn what other routers computed",
            "Router {{ $labels.instance }} is not connected to the other replicas, or updates between them were lost. What \
             they compute meanwhile may count as new there: F1 is too low.",
        )
}

fn dropping(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteHistorySyncDropping", Severity::Warning, "15m")
        .when(spelling.series(rows::HISTORY_SYNC_DROPPED).increase().sum_by(&["instance"]), ">", 0.0)
        .says(
            "{{ $labels.instance }} drops updates to other routers",
            "Router {{ $labels.instance }} learns faster than it can tell the other replicas, and drops what does not fit its \
             queue: their F1 is too low.",
        )
}

fn state(spelling: &Spelling, state: SharingState) -> Query {
    spelling.series(rows::HISTORY_SHARING).with("state", state.as_str()).now()
}
