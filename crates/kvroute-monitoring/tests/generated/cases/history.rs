use kvroute_metrics::rows;

use crate::rule_tests::{Case, case};

const ROUTER: [(&str, &str); 1] = [("instance", "r")];
const HISTORY: [(&str, &str); 2] = [("instance", "r"), ("model", "m")];

pub(crate) fn cases() -> Vec<Case> {
    let parts = [too_small(), alone(), degraded(), dropping()];
    parts.into_iter().flatten().collect()
}

fn too_small() -> Vec<Case> {
    let given = |title, age| {
        case("KvrouteHistoryTooSmall", title).given(rows::HISTORY_OLDEST_ENTRY_AGE, &HISTORY, age)
    };
    vec![
        given("it turns over within ten minutes", "0+60x10 600+0x110").fires("100m", &HISTORY, "10m 0s"),
        given("it is young and has room", "0+60x120").stays_silent(&["10m", "50m", "59m", "110m"]),
        given("it reaches back two hours", "7200+0x120").stays_silent(&["40m", "110m"]),
        given("it was emptied and begins anew", "7200+0x20 0+60x100")
            .stays_silent(&["25m", "30m", "35m", "55m", "110m"]),
        given("a burst turned it over once", "3000+60x20 60+60x90")
            .stays_silent(&["22m", "30m", "35m", "60m", "100m"]),
    ]
}

fn alone() -> Vec<Case> {
    let given = |title, [first, second]: [&'static str; 2]| {
        let labels = |router| [("job", "kvroute"), ("instance", router), ("state", "off")];
        case("KvrouteHistoryAlone", title).given(rows::HISTORY_SHARING, &labels("r1"), first).given(
            rows::HISTORY_SHARING,
            &labels("r2"),
            second,
        )
    };
    let one = case("KvrouteHistoryAlone", "there is one router").given(
        rows::HISTORY_SHARING,
        &[("job", "kvroute"), ("instance", "r1"), ("state", "off")],
        "1+0x60",
    );
    vec![
        given("two routers share nothing", ["1+0x60", "1+0x60"]).fires("40m", &[("job", "kvroute")], "2"),
        given("they share", ["0+0x60", "0+0x60"]).stays_silent(&["40m"]),
        given("one is replaced by another", ["1+0x10 _x50", "_x8 1+0x52"])
            .stays_silent(&["9m", "12m", "40m"]),
        one.stays_silent(&["40m"]),
    ]
}

fn degraded() -> Vec<Case> {
    let given = |title, state, values| {
        case("KvrouteHistorySharingDegraded", title).given(
            rows::HISTORY_SHARING,
            &[ROUTER[0], ("state", state)],
            values,
        )
    };
    vec![
        given("the server is gone", "degraded", "0 1+0x30").fires("10m", &ROUTER, "1"),
        given("a moment without connection", "degraded", "0 1 1 0+0x30")
            .stays_silent(&["2m", "5m", "8m", "20m"]),
        given("it shares", "degraded", "0+0x30").stays_silent(&["20m"]),
        given("nothing is shared", "off", "1+0x30").stays_silent(&["20m"]),
    ]
}

fn dropping() -> Vec<Case> {
    let given = |title, values| {
        case("KvrouteHistorySyncDropping", title).given(rows::HISTORY_SYNC_DROPPED, &ROUTER, values)
    };
    vec![
        given("the queue is full all the time", "0+6x60").fires("40m", &ROUTER, "60"),
        given("one burst", "0 0 0 500+0x60").stays_silent(&["4m", "12m", "16m", "40m"]),
        given("nothing is dropped", "0+0x60").stays_silent(&["40m"]),
    ]
}
