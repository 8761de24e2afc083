//! The cache-reuse funnel: reports that do not come, and promises that are not kept.

use kvroute_funnel::{DeliveryReason, LossStage, ReportOutcome, UncountedReason};
use kvroute_metrics::{Row, rows};

use super::{Alert, ENOUGH_REQUESTS, ENOUGH_TOKENS, Severity};
use crate::query::{Query, Series, Spelling};

const MODEL: [&str; 1] = ["model"];
/// A rank, whichever routers send to it.
const RANK: [&str; 2] = ["worker_id", "dp_rank"];

pub(super) fn alerts(spelling: &Spelling) -> Vec<Alert> {
    vec![
        coverage(spelling),
        reports(spelling, "KvrouteReportsMissing", &[ReportOutcome::Missing], 0.1).says(
            "workers of {{ $labels.model }} do not report what they reused",
            "{{ $value | humanizePercentage }} of the answers of model {{ $labels.model }} say nothing about reused \
             tokens. The router's log names the worker and the engine's flag.",
        ),
        reports(
            spelling,
            "KvrouteReportsInvalid",
            &[ReportOutcome::Invalid, ReportOutcome::Impossible],
            0.01,
        )
        .says(
            "workers of {{ $labels.model }} report reuse that cannot be",
            "{{ $value | humanizePercentage }} of the reuse reports of model {{ $labels.model }} hold no number, or \
             more reused tokens than the prompt has.",
        ),
        reports(spelling, "KvrouteReportsMismatched", &[ReportOutcome::Mismatched], 0.01).says(
            "workers of {{ $labels.model }} count other prompt tokens than the router",
            "For {{ $value | humanizePercentage }} of the answers of model {{ $labels.model }} the engine counted \
             another prompt length than the router: tokenizer or chat template differ, and prefixes may be looked up \
             that the engine never stores.",
        ),
        uncounted(spelling),
        delivery(spelling),
        not_delivering(spelling),
    ]
}

fn coverage(spelling: &Spelling) -> Alert {
    let by_model = |row: &'static Row| spelling.rate(row).sum_by(&MODEL);
    Alert::new("KvrouteCoverageLow", Severity::Warning, "15m")
        .when(by_model(rows::REPORTED_INPUT).over(by_model(rows::EXPECTED_INPUT)), "<", 0.9)
        .when(spelling.series(rows::EXPECTED_INPUT).increase().sum_by(&MODEL), ">", ENOUGH_TOKENS)
        .says(
            "only {{ $value | humanizePercentage }} of the input of {{ $labels.model }} has a reuse report",
            "Only {{ $value | humanizePercentage }} of the input tokens of model {{ $labels.model }} that workers could \
             have reported on has a valid report: its reuse rate speaks of a part of the traffic.",
        )
}

/// A share of the attempts that could have reported. The other outcomes say nothing about a worker.
fn reports(spelling: &Spelling, name: &'static str, outcomes: &[ReportOutcome], share: f64) -> Alert {
    let could_report: Vec<_> =
        ReportOutcome::ALL.into_iter().filter(|outcome| outcome.could_report()).collect();
    let of = |outcomes: &[ReportOutcome]| of_outcomes(spelling, outcomes);
    Alert::new(name, Severity::Warning, "15m")
        .when(of(outcomes).rate().sum_by(&MODEL).over(of(&could_report).rate().sum_by(&MODEL)), ">", share)
        .when(of(&could_report).increase().sum_by(&MODEL), ">", ENOUGH_REQUESTS)
}

fn of_outcomes(spelling: &Spelling, outcomes: &[ReportOutcome]) -> Series {
    let outcomes: Vec<_> = outcomes.iter().map(|outcome| outcome.as_str()).collect();
    spelling.series(rows::REUSE_REPORTS).with_any("outcome", &outcomes)
}

/// Attempts that nobody meant not to count.
fn uncounted(spelling: &Spelling) -> Alert {
    let unwanted = [UncountedReason::Template, UncountedReason::Tokenizer, UncountedReason::Identity];
    let unwanted = unwanted.map(UncountedReason::as_str);
    let uncounted = spelling.series(rows::UNCOUNTED_ATTEMPTS).with_any("reason", &unwanted);
    let attempts = spelling.series(rows::ATTEMPTS);
    Alert::new("KvrouteUncounted", Severity::Warning, "15m")
        .when(uncounted.rate().sum_by(&MODEL).over(attempts.clone().rate().sum_by(&MODEL)), ">", 0.05)
        .when(attempts.increase().sum_by(&MODEL), ">", ENOUGH_REQUESTS)
        .says(
            "{{ $value | humanizePercentage }} of the prompts of {{ $labels.model }} cannot be counted",
            "{{ $value | humanizePercentage }} of the attempts of model {{ $labels.model }} are routed by load alone \
             and missing from the funnel, because their prompt could not be turned into tokens.",
        )
}

/// The last block of a prompt is never delivered by any engine, so it is left out.
fn delivery(spelling: &Spelling) -> Alert {
    let lost = spelling
        .series(rows::REUSE_LOST)
        .with("stage", LossStage::Delivery.as_str())
        .without("reason", DeliveryReason::LastBlock.as_str());
    let predicted = spelling.series(rows::COMPARED_PREDICTED);
    Alert::new("KvrouteDeliveryLoss", Severity::Warning, "15m")
        .when(lost.rate().sum_by(&MODEL).over(predicted.clone().rate().sum_by(&MODEL)), ">", 0.05)
        .when(predicted.increase().sum_by(&MODEL), ">", ENOUGH_TOKENS)
        .says(
            "{{ $value | humanizePercentage }} of what the index promised for {{ $labels.model }} is not reused",
            "Of the cached prefixes that model {{ $labels.model }} was routed by, workers did not reuse \
             {{ $value | humanizePercentage }}, the natural loss of each prompt's last block not counted.",
        )
}

fn not_delivering(spelling: &Spelling) -> Alert {
    let by_rank = |query: Query| query.sum_by(&RANK);
    Alert::new("KvrouteWorkerNotDelivering", Severity::Warning, "15m")
        .when(
            by_rank(spelling.rate(rows::WORKER_REPORTED)).over(by_rank(spelling.rate(rows::WORKER_PREDICTED))),
            "<",
            0.5,
        )
        .when(by_rank(spelling.series(rows::WORKER_PREDICTED).increase()), ">", ENOUGH_TOKENS)
        .says(
            "{{ $labels.worker_id }} rank {{ $labels.dp_rank }} reuses less than half of what it should hold",
            "Worker {{ $labels.worker_id }} rank {{ $labels.dp_rank }} reused only {{ $value | humanizePercentage }} of \
             the cached prefixes that the index promised of it.",
        )
}
