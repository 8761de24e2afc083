//! Requests and the workers that serve them.

use kvroute_metrics::{PrefillFallbackReason, QueueRefusal, RequestOutcome, Row, WorkerState, rows};

use super::{Alert, ENOUGH_REQUESTS, Severity};
use crate::query::{Query, Series, Spelling};

pub(super) fn alerts(spelling: &Spelling) -> Vec<Alert> {
    vec![
        failing(spelling),
        retrying(spelling),
        migrating(spelling),
        without_prefill(spelling),
        no_worker(spelling),
        Alert::new("KvrouteNoWorkerReady", Severity::Critical, "1m")
            .when(states(spelling, &[WorkerState::Ready]).now().sum_by(&["instance"]), "==", 0.0)
            .says(
                "router {{ $labels.instance }} has no worker that takes requests",
                "None of the workers of router {{ $labels.instance }} is ready: every request waits or is refused.",
            ),
        Alert::new("KvrouteWorkerUnhealthy", Severity::Warning, "2m")
            .when(states(spelling, &[WorkerState::Unhealthy, WorkerState::Open]).now(), "==", 1.0)
            .says(
                "worker {{ $labels.worker_id }} is {{ $labels.state }}",
                "Router {{ $labels.instance }} sends nothing to worker {{ $labels.worker_id }}, which is \
                 {{ $labels.state }}: it fails its probes or the requests that it gets.",
            ),
        Alert::new("KvrouteWorkerNotStarting", Severity::Warning, "15m")
            .when(states(spelling, &[WorkerState::Starting]).now(), "==", 1.0)
            .says(
                "worker {{ $labels.worker_id }} has not answered yet",
                "Worker {{ $labels.worker_id }} is configured at router {{ $labels.instance }} and has not answered \
                 its first probe for a quarter of an hour.",
            ),
        queue_full(spelling),
        Alert::new("KvrouteRequestsWaiting", Severity::Warning, "10m")
            .when(spelling.now(rows::QUEUE_PENDING).sum_by(&["model"]), ">", 0.0)
            .says(
                "requests of {{ $labels.model }} wait for a worker all the time",
                "For ten minutes there was always a request of model {{ $labels.model }} that waited for a worker with \
                 room, {{ $value }} at the last look: the pool is too small for its traffic, or its busy threshold \
                 too low.",
            ),
    ]
}

fn failing(spelling: &Spelling) -> Alert {
    let requests = |outcomes: &[RequestOutcome]| {
        let outcomes: Vec<_> = outcomes.iter().map(|outcome| outcome.as_str()).collect();
        spelling.series(rows::REQUESTS).with_any("outcome", &outcomes).within("2m")
    };
    let ended = [RequestOutcome::Completed, RequestOutcome::Failed];
    let by_model = |query: Query| query.sum_by(&["model"]);
    Alert::new("KvrouteRequestsFailing", Severity::Critical, "5m")
        .when(
            by_model(requests(&[RequestOutcome::Failed]).rate()).over(by_model(requests(&ended).rate())),
            ">",
            0.05,
        )
        .when(by_model(requests(&ended).increase()), ">", ENOUGH_REQUESTS)
        .says(
            "{{ $value | humanizePercentage }} of the requests of {{ $labels.model }} fail",
            "{{ $value | humanizePercentage }} of the requests of model {{ $labels.model }} that reached a worker \
             failed there, and nothing could make up for it.",
        )
}

fn retrying(spelling: &Spelling) -> Alert {
    let by_model = |row: &'static Row| spelling.rate(row).sum_by(&["model"]);
    Alert::new("KvrouteRetrying", Severity::Warning, "15m")
        .when(by_model(rows::RETRIES).over(by_model(rows::ATTEMPTS)), ">", 0.05)
        .when(spelling.series(rows::ATTEMPTS).increase().sum_by(&["model"]), ">", ENOUGH_REQUESTS)
        .says(
            "{{ $value | humanizePercentage }} of the attempts of {{ $labels.model }} follow a failed one",
            "{{ $value | humanizePercentage }} of the attempts of model {{ $labels.model }} had to be made because an \
             earlier attempt of the same request failed. Clients wait longer, and prompts are computed twice.",
        )
}

fn migrating(spelling: &Spelling) -> Alert {
    let by_model = |row: &'static Row| spelling.rate(row).sum_by(&["model"]);
    Alert::new("KvrouteMigrating", Severity::Warning, "15m")
        .when(by_model(rows::MIGRATIONS).over(by_model(rows::REQUESTS)), ">", 0.02)
        .when(spelling.series(rows::REQUESTS).increase().sum_by(&["model"]), ">", ENOUGH_REQUESTS)
        .says(
            "{{ $value | humanizePercentage }} of the requests of {{ $labels.model }} break off and go on elsewhere",
            "Streams of model {{ $labels.model }} keep breaking off behind their first token, {{ $value | \
             humanizePercentage }} as many as there are requests. Clients see a pause, prompt and answer are computed again.",
        )
}

/// A prompt that is cached where it is decoded, or that cannot be handed over, is no fault.
fn without_prefill(spelling: &Spelling) -> Alert {
    let faults = [
        PrefillFallbackReason::NoWorker,
        PrefillFallbackReason::Unhealthy,
        PrefillFallbackReason::Failed,
        PrefillFallbackReason::NoConnector,
    ];
    let fell_back = spelling
        .series(rows::PREFILL_FALLBACKS)
        .with_any("reason", &faults.map(PrefillFallbackReason::as_str));
    Alert::new("KvroutePrefillFallback", Severity::Warning, "10m")
        .when(fell_back.rate().sum_by(&["model"]).over(spelling.rate(rows::REQUESTS).sum_by(&["model"])), ">", 0.05)
        .when(spelling.series(rows::REQUESTS).increase().sum_by(&["model"]), ">", ENOUGH_REQUESTS)
        .says(
            "{{ $value | humanizePercentage }} of the requests of {{ $labels.model }} do without a prefill worker",
            "{{ $value | humanizePercentage }} of the requests of model {{ $labels.model }} are computed by their decode \
             worker alone, because no prefill worker is there, well, or able: streams that run there are held up by prompts.",
        )
}

fn no_worker(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteNoWorker", Severity::Critical, "5m")
        .when(refused(spelling, "2m", &[QueueRefusal::NoWorker]), ">", 0.0)
        .says(
            "requests of {{ $labels.model }} are refused because no worker is there",
            "For five minutes requests of model {{ $labels.model }} have been answered 503: no worker that could take \
             them was ready within the time that they may wait.",
        )
}

fn queue_full(spelling: &Spelling) -> Alert {
    Alert::new("KvrouteQueueFull", Severity::Warning, "10m")
        .when(refused(spelling, "5m", &[QueueRefusal::Full, QueueRefusal::Timeout]), ">", 0.0)
        .says(
            "requests of {{ $labels.model }} are turned away because every worker is busy",
            "For ten minutes requests of model {{ $labels.model }} have been turned away, because the queue was full \
             or they waited too long in it.",
        )
}

fn refused(spelling: &Spelling, window: &'static str, reasons: &[QueueRefusal]) -> Query {
    let reasons: Vec<_> = reasons.iter().map(|reason| reason.as_str()).collect();
    spelling.series(rows::QUEUE_REFUSED).with_any("reason", &reasons).within(window).rate().sum_by(&["model"])
}

fn states(spelling: &Spelling, states: &[WorkerState]) -> Series {
    let states: Vec<_> = states.iter().map(|state| state.as_str()).collect();
    spelling.series(rows::WORKER_STATE).with_any("state", &states)
}
