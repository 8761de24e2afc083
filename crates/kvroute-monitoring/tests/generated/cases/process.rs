use kvroute_metrics::rows;

use crate::rule_tests::{Case, case};

const ROUTER: [(&str, &str); 2] = [("job", "kvroute"), ("instance", "r:9090")];
const BUILD: [(&str, &str); 3] = [("job", "kvroute"), ("instance", "r:9090"), ("version", "1")];
const POOL: [(&str, &str); 3] = [("job", "kvroute"), ("instance", "r:9090"), ("pool", "0")];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("KvrouteDown", "the router does not answer")
            .with("up", &ROUTER, "1 0+0x10")
            .fires("5m", &ROUTER, "0"),
        case("KvrouteDown", "one scrape failed")
            .with("up", &ROUTER, "1 0 1+0x10")
            .stays_silent(&["1m", "2m", "5m"]),
        case("KvrouteDown", "the router answers").with("up", &ROUTER, "1+0x10").stays_silent(&["10m"]),
        case("KvrouteDown", "something else is down")
            .with("up", &[("job", "node")], "0+0x10")
            .stays_silent(&["10m"]),
        case("KvrouteAbsent", "no series").fires("10m", &[], ""),
        case("KvrouteAbsent", "a router is scraped")
            .given(rows::BUILD_INFO, &BUILD, "1+0x20")
            .stays_silent(&["20m"]),
        case("KvrouteAbsent", "a router restarts")
            .given(rows::BUILD_INFO, &BUILD, "1 stale stale stale 1+0x20")
            .stays_silent(&["3m", "6m", "20m"]),
        case("KvrouteAbsent", "one of two routers leaves")
            .given(rows::BUILD_INFO, &BUILD, "1 stale")
            .given(rows::BUILD_INFO, &[("instance", "other")], "1+0x20")
            .stays_silent(&["20m"]),
    ];
    cases.extend(restarting());
    cases.extend(file_descriptors());
    cases.extend(discovery());
    cases
}

fn restarting() -> Vec<Case> {
    let routers = || case_of_build("KvrouteRestarting", "a router restarts three times");
    vec![
        routers().given(rows::PROCESS_START_TIME, &ROUTER, "1 1 2 2 3 3 4 4+0x20").fires("9m", &ROUTER, "3"),
        case_of_build("KvrouteRestarting", "one restart")
            .given(rows::PROCESS_START_TIME, &ROUTER, "1 1 2+0x60")
            .stays_silent(&["3m", "30m"]),
        case("KvrouteRestarting", "another program restarts")
            .given(rows::PROCESS_START_TIME, &ROUTER, "1 1 2 2 3 3 4 4+0x20")
            .stays_silent(&["9m"]),
    ]
}

fn file_descriptors() -> Vec<Case> {
    let given = |title, open| {
        case_of_build("KvrouteFileDescriptors", title).given(rows::PROCESS_OPEN_FDS, &ROUTER, open).given(
            rows::PROCESS_MAX_FDS,
            &ROUTER,
            "1000+0x60",
        )
    };
    vec![
        given("nine in ten are open", "900+0x60").fires("10m", &ROUTER, "90%"),
        given("half are open", "500+0x60").stays_silent(&["10m"]),
        given("a short peak", "100 100 900 900 900 100+0x60").stays_silent(&["4m", "8m"]),
        case("KvrouteFileDescriptors", "another program has few left")
            .given(rows::PROCESS_OPEN_FDS, &ROUTER, "900+0x60")
            .given(rows::PROCESS_MAX_FDS, &ROUTER, "1000+0x60")
            .stays_silent(&["10m"]),
    ]
}

fn discovery() -> Vec<Case> {
    let given = |title, failing| {
        case("KvrouteDiscoveryFailing", title).given(rows::DISCOVERY_FAILING, &POOL, failing)
    };
    vec![
        given("no look succeeds", "0 0 1+0x60").fires("10m", &POOL, "1"),
        given("every look succeeds", "0+0x60").stays_silent(&["10m"]),
        given("looks fail now and then", "0 1 1 0 1 1 1 0 1 0+0x60").stays_silent(&["3m", "9m"]),
    ]
}

fn case_of_build(alert: &'static str, title: &'static str) -> Case {
    case(alert, title).given(rows::BUILD_INFO, &BUILD, "1+0x60")
}
