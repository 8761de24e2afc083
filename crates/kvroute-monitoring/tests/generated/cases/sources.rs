use kvroute_metrics::{Row, rows};

use crate::rule_tests::{Case, case};

const RANK: [(&str, &str); 3] = [("instance", "r"), ("worker_id", "w1"), ("dp_rank", "0")];

pub(crate) fn cases() -> Vec<Case> {
    let parts = [identity(), states(), incidents(), lag(), budget()];
    parts.into_iter().flatten().collect()
}

fn identity() -> Vec<Case> {
    let labels = |state| [("instance", "r"), ("model", "m"), ("worker_id", "w1"), ("state", state)];
    let given = |title, state, values| {
        case("KvrouteIdentityMismatch", title).given(rows::IDENTITY_STATE, &labels(state), values)
    };
    vec![
        given("the engine has another template", "mismatch", "0 1+0x30").fires(
            "5m",
            &labels("mismatch"),
            "1",
        ),
        given("the pool's folder is corrected", "mismatch", "0 1 0+0x30").stays_silent(&["1m", "2m", "5m"]),
        given("they agree", "mismatch", "0+0x30").stays_silent(&["30m"]),
        given("nobody has compared them", "unproven", "1+0x30").stays_silent(&["30m"]),
    ]
}

fn states() -> Vec<Case> {
    let labels = |state| [("instance", "r"), ("worker_id", "w1"), ("dp_rank", "0"), ("state", state)];
    let given =
        |alert, title, state, values| case(alert, title).given(rows::SOURCE_STATE, &labels(state), values);
    vec![
        given("KvrouteSourceBlind", "no events arrive", "blind", "0 1+0x30").fires(
            "5m",
            &labels("blind"),
            "1",
        ),
        given("KvrouteSourceBlind", "the engine restarts", "blind", "0 1 0+0x30")
            .stays_silent(&["1m", "2m", "5m"]),
        given("KvrouteSourceBlind", "its events arrive", "blind", "0+0x30").stays_silent(&["30m"]),
        given("KvrouteSourceBlind", "a rank without events", "remembered", "1+0x30").stays_silent(&["30m"]),
        given("KvrouteSourceSuspect", "reports contradict events", "suspect", "0 1+0x30").fires(
            "5m",
            &labels("suspect"),
            "1",
        ),
        given("KvrouteSourceSuspect", "a moment of doubt", "suspect", "0 1 0+0x30")
            .stays_silent(&["1m", "2m", "5m"]),
        given("KvrouteSourceSuspect", "nothing is suspected", "suspect", "0+0x30").stays_silent(&["30m"]),
        given("KvrouteSourceSuspect", "a gap was not filled", "degraded", "1+0x30").stays_silent(&["30m"]),
    ]
}

/// Counters of what happens to an event stream.
fn incidents() -> Vec<Case> {
    let given = |alert, row: &Row, title, values| case(alert, title).given(row, &RANK, values);
    let gaps = |title, values| given("KvrouteIndexGaps", rows::INDEX_GAPS, title, values);
    let missed = |title, values| given("KvrouteEventsLost", rows::MISSED_BATCHES, title, values);
    let restarts = |title, values| given("KvrouteEngineRestarting", rows::INDEX_RESTARTS, title, values);
    vec![
        gaps("a gap every minute", "0+1x60").fires("40m", &RANK, "10"),
        gaps("ten gaps at once", "0 0 0 10+0x60").stays_silent(&["4m", "10m", "20m"]),
        gaps("a gap now and then", "0+0x10 1+0x10 2+0x10 3+0x30").stays_silent(&["12m", "25m", "40m"]),
        gaps("no gap", "0+0x60").stays_silent(&["40m"]),
        missed("batches are lost again and again", "0+2x60").fires("40m", &RANK, "30"),
        missed("one loss", "0 0 0 50+0x60").stays_silent(&["5m", "18m", "25m", "40m"]),
        missed("no loss", "0+0x60").stays_silent(&["40m"]),
        restarts("an engine crashes again and again", "0 1 1 2 2 3 3 4 4+0x60").fires("30m", &RANK, "4"),
        restarts("one restart", "0 1+0x90").stays_silent(&["5m", "30m", "90m"]),
        restarts("no restart", "0+0x90").stays_silent(&["90m"]),
    ]
}

fn lag() -> Vec<Case> {
    let given = |title, lag, events| {
        let kind = [RANK[0], RANK[1], RANK[2], ("kind", "stored")];
        case("KvrouteEventLag", title).given(rows::EVENT_LAG_SECONDS, &RANK, lag).given(
            rows::INDEX_EVENTS,
            &kind,
            events,
        )
    };
    vec![
        given("events come half a minute late", "30+0x60", "0+10x60").fires("10m", &RANK, "30s"),
        given("events come at once", "0.01+0x60", "0+10x60").stays_silent(&["10m"]),
        given("a late batch", "0 0 30 0+0x60", "0+10x60").stays_silent(&["2m", "3m", "10m"]),
        given("a late batch was the last one", "0 0 30+0x60", "0 10 20+0x60")
            .stays_silent(&["3m", "8m", "30m"]),
    ]
}

fn budget() -> Vec<Case> {
    let labels = [("instance", "r"), ("model", "m")];
    let given =
        |title, values| case("KvrouteIndexBudget", title).given(rows::BUDGET_EVICTIONS, &labels, values);
    vec![
        given("blocks are forgotten all the time", "0+60x60").fires("30m", &labels, "1"),
        given("a short burst", "0 0 900 900+0x60").stays_silent(&["5m", "18m", "30m"]),
        given("nothing is forgotten", "0+0x60").stays_silent(&["30m"]),
    ]
}
