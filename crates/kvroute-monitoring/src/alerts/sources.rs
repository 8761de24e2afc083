//! What the router knows of the workers' caches.

use kvroute_metrics::{IdentityState, Row, SourceState, rows};

use super::{Alert, Severity};
use crate::query::{Query, Spelling};

/// Labels of one rank as one router sees it.
const RANK: [&str; 3] = ["instance", "worker_id", "dp_rank"];

pub(super) fn alerts(spelling: &Spelling) -> Vec<Alert> {
    let grows = |row: &'static Row, window| spelling.series(row).within(window).increase();
    vec![
        mismatch(spelling),
        blind(spelling),
        suspect(spelling),
        lagging(spelling),
        Alert::new("KvrouteIndexGaps", Severity::Warning, "15m")
            .when(grows(rows::INDEX_GAPS, "10m"), ">", 3.0)
            .says(
                "KV events of {{ $labels.worker_id }} rank {{ $labels.dp_rank }} have gap after gap",
                "Router {{ $labels.instance }} keeps missing KV events of worker {{ $labels.worker_id }} rank \
                 {{ $labels.dp_rank }}. While a gap is being filled, its cached prefixes may be out of date.",
            ),
        Alert::new("KvrouteEventsLost", Severity::Warning, "20m")
            .when(grows(rows::MISSED_BATCHES, "15m"), ">", 0.0)
            .says(
                "KV events of {{ $labels.worker_id }} rank {{ $labels.dp_rank }} are lost for good, again and again",
                "Router {{ $labels.instance }} gave up gaps of worker {{ $labels.worker_id }} rank \
                 {{ $labels.dp_rank }} that no replay could fill. Each time it forgets what the rank holds and starts \
                 from nothing.",
            ),
        Alert::new("KvrouteEngineRestarting", Severity::Warning, "1m")
            .when(grows(rows::INDEX_RESTARTS, "1h"), ">", 2.0)
            .says(
                "engine {{ $labels.worker_id }} rank {{ $labels.dp_rank }} restarts again and again",
                "The event stream of worker {{ $labels.worker_id }} rank {{ $labels.dp_rank }} began anew \
                 several times within an hour, each time with an empty cache.",
            ),
        Alert::new("KvrouteIndexBudget", Severity::Warning, "15m")
            .when(
                spelling.series(rows::BUDGET_EVICTIONS).within("5m").rate().sum_by(&["instance", "model"]),
                ">",
                0.0,
            )
            .says(
                "the index of {{ $labels.model }} is full",
                "Router {{ $labels.instance }} forgets blocks of model {{ $labels.model }} that engines still hold, to \
                 stay within pool.index.bytes: prompts that could be reused look new.",
            ),
    ]
}

fn mismatch(spelling: &Spelling) -> Alert {
    let state = spelling.series(rows::IDENTITY_STATE).with("state", IdentityState::Mismatch.as_str()).now();
    Alert::new("KvrouteIdentityMismatch", Severity::Warning, "2m").when(state, "==", 1.0).says(
        "{{ $labels.worker_id }} makes other tokens of prompts of {{ $labels.model }} than the router",
        "The engine of worker {{ $labels.worker_id }} cuts prompts of model {{ $labels.model }} into other tokens than \
         router {{ $labels.instance }}: what it has cached is not found. Where no worker agrees with the router, \
         pool.on_mismatch says how prompts are counted meanwhile.",
    )
}

fn blind(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteSourceBlind", Severity::Warning, "2m").when(state(spelling, SourceState::Blind), "==", 1.0).says(
        "KV events of {{ $labels.worker_id }} rank {{ $labels.dp_rank }} do not arrive",
        "Router {{ $labels.instance }} has no usable KV events from worker {{ $labels.worker_id }} rank \
         {{ $labels.dp_rank }}: what it has cached is not known, and it is picked by load alone. GET /api/workers \
         names the reason.",
    )
}

fn suspect(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteSourceSuspect", Severity::Warning, "2m")
        .when(state(spelling, SourceState::Suspect), "==", 1.0)
        .says(
            "{{ $labels.worker_id }} rank {{ $labels.dp_rank }} contradicts its own KV events",
            "Worker {{ $labels.worker_id }} rank {{ $labels.dp_rank }} reported less reuse than its KV events \
             promised, several times in a row. Router {{ $labels.instance }} gives its cached prefixes no credit until \
             its reports agree again.",
        )
}

/// The gauge keeps its last value while nothing arrives, so that it speaks only while events come.
fn lagging(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteEventLag", Severity::Warning, "5m")
        .when(spelling.now(rows::EVENT_LAG_SECONDS).max_by(&RANK), ">", 5.0)
        .when(spelling.series(rows::INDEX_EVENTS).within("2m").rate().sum_by(&RANK), ">", 0.0)
        .says(
            "KV events of {{ $labels.worker_id }} rank {{ $labels.dp_rank }} come late",
            "KV events of worker {{ $labels.worker_id }} rank {{ $labels.dp_rank }} are {{ $value | humanizeDuration }} \
             old when router {{ $labels.instance }} applies them: it decides by what the cache held then.",
        )
}

fn state(spelling: &Spelling, state: SourceState) -> Query {
    spelling.series(rows::SOURCE_STATE).with("state", state.as_str()).now()
}
