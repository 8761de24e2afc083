//! The router itself.

use kvroute_metrics::rows;

use super::{Alert, Severity};
use crate::query::{Query, Spelling};

pub(super) fn alerts(spelling: &Spelling) -> Vec<Alert> {
    let build_info = || spelling.now(rows::BUILD_INFO);
    vec![
        Alert::new("KvrouteDown", Severity::Critical, "1m").when(Query::scraped("kvroute"), "==", 0.0).says(
            "router {{ $labels.instance }} cannot be scraped",
            "Prometheus has not reached the admin plane of router {{ $labels.instance }} for a minute: the process is \
             gone or hangs, or the network between them is broken.",
        ),
        Alert::new("KvrouteAbsent", Severity::Critical, "5m").while_there_is(build_info().through("absent")).says(
            "no router is scraped",
            "Nothing that Prometheus scraped in the last five minutes was a kvroute. Alerts about what a router tells \
             are silent in that state, whatever happens.",
        ),
        Alert::new("KvrouteRestarting", Severity::Warning, "1m")
            .when(
                spelling
                    .series(rows::PROCESS_START_TIME)
                    .within("30m")
                    .changes()
                    .of_routers(build_info())
                    .in_brackets(),
                ">",
                2.0,
            )
            .says(
                "router {{ $labels.instance }} restarts again and again",
                "Router {{ $labels.instance }} restarted {{ $value }} times within half an hour. Each time it cuts \
                 its streams and, without pool.index.snapshot, empties its index.",
            ),
        Alert::new("KvrouteFileDescriptors", Severity::Warning, "5m")
            .when(
                spelling
                    .now(rows::PROCESS_OPEN_FDS)
                    .over(spelling.now(rows::PROCESS_MAX_FDS))
                    .of_routers(build_info())
                    .in_brackets(),
                ">",
                0.8,
            )
            .says(
                "router {{ $labels.instance }} has few file descriptors left",
                "Router {{ $labels.instance }} has used {{ $value | humanizePercentage }} of the file descriptors \
                 that it may have; a stream needs two. Beyond the limit clients are not let in.",
            ),
        Alert::new("KvrouteDiscoveryFailing", Severity::Warning, "5m")
            .when(spelling.now(rows::DISCOVERY_FAILING), "==", 1.0)
            .says(
                "workers of pool {{ $labels.pool }} cannot be looked up",
                "Router {{ $labels.instance }} has not found the workers of pool {{ $labels.pool }} for five minutes: \
                 it goes on with those that it knew. One that comes gets no requests, one that went is still asked. \
                 GET /api/discovery says why.",
            ),
    ]
}
