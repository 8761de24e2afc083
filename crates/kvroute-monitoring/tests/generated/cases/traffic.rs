use kvroute_metrics::{Row, rows};

use crate::rule_tests::{Case, case};

const MODEL: [(&str, &str); 1] = [("model", "m")];

pub(crate) fn cases() -> Vec<Case> {
    let parts = [failing(), retrying(), migrating(), without_prefill(), workers(), queue()];
    parts.into_iter().flatten().collect()
}

fn failing() -> Vec<Case> {
    let given = |title, completed, failed| {
        let of = |outcome| [("model", "m"), ("endpoint", "/v1/completions"), ("outcome", outcome)];
        case("KvrouteRequestsFailing", title)
            .given(rows::REQUESTS, &of("completed"), completed)
            .given(rows::REQUESTS, &of("failed"), failed)
            .given(rows::REQUESTS, &of("rejected"), "0+1000x60")
    };
    vec![
        given("one in ten fails", "0+90x60", "0+10x60").fires("10m", &MODEL, "10%"),
        given("one in a hundred fails", "0+99x60", "0+1x60").stays_silent(&["10m", "30m"]),
        given("two minutes of failures", "0+90x60", "0+0x9 0 50 100+0x50")
            .stays_silent(&["12m", "14m", "17m"]),
        given("no traffic", "0+0x60", "0+0x60").stays_silent(&["10m"]),
        given("all of a few fail", "0+0x60", "0+1x60").stays_silent(&["10m", "30m"]),
    ]
}

fn retrying() -> Vec<Case> {
    let given = |title, attempts, retries| {
        let of_attempt =
            [("phase", "aggregated"), ("model", "m"), ("policy", "kv"), ("outcome", "completed")];
        case("KvrouteRetrying", title).given(rows::ATTEMPTS, &of_attempt, attempts).given(
            rows::RETRIES,
            &[("model", "m"), ("reason", "connect")],
            retries,
        )
    };
    vec![
        given("one in ten is a further attempt", "0+100x60", "0+10x60").fires("40m", &MODEL, "10%"),
        given("one in a hundred is", "0+100x60", "0+1x60").stays_silent(&["40m"]),
        given("a worker dies", "0+100x60", "0+0x9 0 100 200+0x50")
            .stays_silent(&["12m", "20m", "25m", "30m", "45m"]),
        given("no traffic", "0+0x60", "0+0x60").stays_silent(&["40m"]),
        given("little traffic", "0+1x60", "0+1x60").stays_silent(&["40m"]),
    ]
}

/// Requests that completed, and something that happened to some of them.
fn beside_requests(
    alert: &'static str,
    row: &'static Row,
    reason: &'static str,
) -> impl Fn(&'static str, &'static str, &'static str) -> Case {
    move |title, requests, incidents| {
        let completed = [("model", "m"), ("endpoint", "/v1/completions"), ("outcome", "completed")];
        case(alert, title).given(rows::REQUESTS, &completed, requests).given(
            row,
            &[("model", "m"), ("reason", reason)],
            incidents,
        )
    }
}

fn migrating() -> Vec<Case> {
    let given = beside_requests("KvrouteMigrating", rows::MIGRATIONS, "broken");
    vec![
        given("one in ten streams breaks off", "0+100x60", "0+10x60").fires("40m", &MODEL, "10%"),
        given("one in a hundred does", "0+100x60", "0+1x60").stays_silent(&["40m"]),
        given("a worker dies", "0+100x60", "0+0x9 0 100 200+0x50")
            .stays_silent(&["12m", "20m", "25m", "45m"]),
        given("no traffic", "0+0x60", "0+0x60").stays_silent(&["40m"]),
        given("little traffic", "0+1x60", "0+1x60").stays_silent(&["40m"]),
    ]
}

fn without_prefill() -> Vec<Case> {
    let because = |reason| beside_requests("KvroutePrefillFallback", rows::PREFILL_FALLBACKS, reason);
    vec![
        because("failed")("one in ten does without", "0+100x60", "0+10x60").fires("40m", &MODEL, "10%"),
        because("no_worker")("all do without", "0+100x60", "0+100x60").fires("40m", &MODEL, "100%"),
        because("cached")("all are cached where they are decoded", "0+100x60", "0+100x60")
            .stays_silent(&["40m"]),
        because("unsupported")("nobody asks for what can be handed over", "0+100x60", "0+100x60")
            .stays_silent(&["40m"]),
        because("unhealthy")("a prefill worker restarts", "0+100x60", "0+0x9 0 50 100+0x50")
            .stays_silent(&["11m", "18m", "30m"]),
        because("failed")("little traffic", "0+1x60", "0+1x60").stays_silent(&["40m"]),
    ]
}

fn workers() -> Vec<Case> {
    let state = |state| [("instance", "r"), ("worker_id", "w1"), ("state", state)];
    let other = |state| [("instance", "r"), ("worker_id", "w2"), ("state", state)];
    let given = |alert, title, of, values| case(alert, title).given(rows::WORKER_STATE, &state(of), values);
    vec![
        given("KvrouteWorkerUnhealthy", "its probes fail", "unhealthy", "0 1+0x60").fires(
            "5m",
            &state("unhealthy"),
            "1",
        ),
        given("KvrouteWorkerUnhealthy", "its breaker is open", "open", "0 1+0x60").fires(
            "5m",
            &state("open"),
            "1",
        ),
        given("KvrouteWorkerUnhealthy", "one probe fails", "unhealthy", "0 1 0+0x60")
            .stays_silent(&["1m", "2m", "5m"]),
        given("KvrouteWorkerUnhealthy", "it is ready", "unhealthy", "0+0x60").stays_silent(&["5m"]),
        given("KvrouteWorkerNotStarting", "it never answers", "starting", "1+0x60").fires(
            "20m",
            &state("starting"),
            "1",
        ),
        given("KvrouteWorkerNotStarting", "it loads its model", "starting", "1+0x9 0+0x60")
            .stays_silent(&["9m", "20m"]),
        given("KvrouteWorkerNotStarting", "it is ready", "starting", "0+0x60").stays_silent(&["20m"]),
        given("KvrouteNoWorkerReady", "all workers are gone", "ready", "1 0+0x60")
            .given(rows::WORKER_STATE, &other("ready"), "0+0x60")
            .fires("5m", &[("instance", "r")], "0"),
        given("KvrouteNoWorkerReady", "one of two is gone", "ready", "1 0+0x60")
            .given(rows::WORKER_STATE, &other("ready"), "1+0x60")
            .stays_silent(&["5m", "30m"]),
        given("KvrouteNoWorkerReady", "the only one restarts", "ready", "1 0 1+0x60")
            .stays_silent(&["1m", "2m", "5m"]),
        given("KvrouteNoWorkerReady", "it is ready", "ready", "1+0x60").stays_silent(&["30m"]),
    ]
}

fn queue() -> Vec<Case> {
    let refused = |alert, title, reason, values| {
        case(alert, title).given(rows::QUEUE_REFUSED, &[("model", "m"), ("reason", reason)], values)
    };
    let waiting = |title, values| {
        case("KvrouteRequestsWaiting", title).given(
            rows::QUEUE_PENDING,
            &[("model", "m"), ("worker_type", "decode")],
            values,
        )
    };
    vec![
        refused("KvrouteNoWorker", "requests are refused all the time", "no_worker", "0+3x60")
            .fires("10m", &MODEL, "0.05"),
        refused("KvrouteNoWorker", "a few are refused", "no_worker", "0 0 5+0x60")
            .stays_silent(&["3m", "5m", "10m"]),
        refused("KvrouteNoWorker", "nothing is refused", "no_worker", "0+0x60").stays_silent(&["10m"]),
        refused("KvrouteNoWorker", "the queue is full", "full", "0+3x60").stays_silent(&["10m"]),
        refused("KvrouteQueueFull", "the queue overflows all the time", "full", "0+3x60")
            .fires("20m", &MODEL, "0.05"),
        refused("KvrouteQueueFull", "requests wait too long", "timeout", "0+6x60")
            .fires("20m", &MODEL, "0.1"),
        refused("KvrouteQueueFull", "a short burst", "full", "0 0 100 200+0x60")
            .stays_silent(&["4m", "8m", "12m", "20m"]),
        refused("KvrouteQueueFull", "nothing is refused", "full", "0+0x60").stays_silent(&["20m"]),
        refused("KvrouteQueueFull", "no worker is there", "no_worker", "0+3x60").stays_silent(&["20m"]),
        waiting("somebody waits all the time", "0 4+0x60").fires("15m", &MODEL, "4"),
        waiting("a short burst", "0 9 9 9 0+0x60").stays_silent(&["3m", "10m", "15m"]),
        waiting("nobody waits", "0+0x60").stays_silent(&["30m"]),
    ]
}
