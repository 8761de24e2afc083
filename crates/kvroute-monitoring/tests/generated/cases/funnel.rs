use kvroute_metrics::rows;

use crate::rule_tests::{Case, case};

const MODEL: [(&str, &str); 1] = [("model", "m")];
const GROUP: [(&str, &str); 2] = [("phase", "aggregated"), ("model", "m")];
/// Times around and after a fault that begins after ten minutes.
const AROUND: [&str; 5] = ["12m", "20m", "25m", "30m", "45m"];

pub(crate) fn cases() -> Vec<Case> {
    let parts = [coverage(), reports(), uncounted(), delivery(), not_delivering()];
    parts.into_iter().flatten().collect()
}

fn coverage() -> Vec<Case> {
    let given = |title, expected, reported| {
        case("KvrouteCoverageLow", title).given(rows::EXPECTED_INPUT, &GROUP, expected).given(
            rows::REPORTED_INPUT,
            &GROUP,
            reported,
        )
    };
    vec![
        given("half of the input has no report", "0+2000x60", "0+1000x60").fires("40m", &MODEL, "50%"),
        given("all input is reported", "0+2000x60", "0+2000x60").stays_silent(&["40m"]),
        given("four minutes without reports", "0+2000x60", "0+2000x10 20000+0x3 22000+2000x50")
            .stays_silent(&AROUND),
        given("no traffic", "0+0x60", "0+0x60").stays_silent(&["40m"]),
        given("little traffic", "0+100x60", "0+0x60").stays_silent(&["40m"]),
    ]
}

fn reports() -> Vec<Case> {
    let given = |alert, title, outcome, good, bad| {
        let of = |outcome| [("phase", "aggregated"), ("model", "m"), ("outcome", outcome)];
        case(alert, title).given(rows::REUSE_REPORTS, &of("reported"), good).given(
            rows::REUSE_REPORTS,
            &of(outcome),
            bad,
        )
    };
    let mut cases = vec![
        given("KvrouteReportsMissing", "a fifth says nothing", "missing", "0+80x60", "0+20x60")
            .fires("40m", &MODEL, "20%"),
        given("KvrouteReportsInvalid", "a fifth is no number", "invalid", "0+80x60", "0+20x60")
            .fires("40m", &MODEL, "20%"),
        given("KvrouteReportsInvalid", "a fifth is too much", "impossible", "0+80x60", "0+20x60")
            .fires("40m", &MODEL, "20%"),
        given("KvrouteReportsMismatched", "a fifth counts otherwise", "mismatched", "0+80x60", "0+20x60")
            .fires("40m", &MODEL, "20%"),
    ];
    let quiet = [
        ("KvrouteReportsMissing", "missing"),
        ("KvrouteReportsInvalid", "invalid"),
        ("KvrouteReportsMismatched", "mismatched"),
    ];
    for (alert, outcome) in quiet {
        let silent = |title, good, bad| given(alert, title, outcome, good, bad).stays_silent(&AROUND);
        cases.push(silent("every report is good", "0+80x60", "0+0x60"));
        cases.push(silent("two minutes of it", "0+80x60", "0+0x9 0 80 160+0x50"));
        cases.push(silent("no traffic", "0+0x60", "0+0x60"));
        cases.push(silent("little traffic", "0+0x60", "0+1x60"));
    }
    cases.push(
        given("KvrouteReportsMissing", "clients leave", "unfinished", "0+80x60", "0+80x60")
            .stays_silent(&["40m"]),
    );
    cases
}

fn uncounted() -> Vec<Case> {
    let given = |title, reason, attempts, uncounted| {
        let of_attempt =
            [("phase", "aggregated"), ("model", "m"), ("policy", "kv"), ("outcome", "completed")];
        case("KvrouteUncounted", title).given(rows::ATTEMPTS, &of_attempt, attempts).given(
            rows::UNCOUNTED_ATTEMPTS,
            &[GROUP[0], GROUP[1], ("reason", reason)],
            uncounted,
        )
    };
    vec![
        given("the template fails for a tenth", "template", "0+100x60", "0+10x60")
            .fires("40m", &MODEL, "10%"),
        given("every prompt is counted", "template", "0+100x60", "0+0x60").stays_silent(&["40m"]),
        given("the operator wants no counting", "off", "0+100x60", "0+100x60").stays_silent(&["40m"]),
        given("two minutes of it", "tokenizer", "0+100x60", "0+0x9 0 100 200+0x50").stays_silent(&AROUND),
        given("no traffic", "tokenizer", "0+0x60", "0+0x60").stays_silent(&["40m"]),
        given("little traffic", "tokenizer", "0+1x60", "0+1x60").stays_silent(&["40m"]),
    ]
}

fn delivery() -> Vec<Case> {
    let given = |title, reason, predicted, lost| {
        case("KvrouteDeliveryLoss", title).given(rows::COMPARED_PREDICTED, &GROUP, predicted).given(
            rows::REUSE_LOST,
            &[GROUP[0], GROUP[1], ("stage", "delivery"), ("reason", reason)],
            lost,
        )
    };
    vec![
        given("a tenth is not delivered", "unexplained", "0+2000x60", "0+200x60").fires("40m", &MODEL, "10%"),
        given("little is lost", "unexplained", "0+2000x60", "0+20x60").stays_silent(&["40m"]),
        given("last blocks are natural", "last_block", "0+2000x60", "0+400x60").stays_silent(&["40m"]),
        given("two minutes of it", "stale_index", "0+2000x60", "0+0x9 0 2000 4000+0x50")
            .stays_silent(&AROUND),
        given("no traffic", "unexplained", "0+0x60", "0+0x60").stays_silent(&["40m"]),
        given("little traffic", "unexplained", "0+100x60", "0+100x60").stays_silent(&["40m"]),
        case("KvrouteDeliveryLoss", "tokens were lost before")
            .given(rows::COMPARED_PREDICTED, &GROUP, "0+2000x60")
            .given(
                rows::REUSE_LOST,
                &[GROUP[0], GROUP[1], ("stage", "placement"), ("reason", "load")],
                "0+2000x60",
            )
            .stays_silent(&["40m"]),
    ]
}

fn not_delivering() -> Vec<Case> {
    let rank = |worker| [("worker_id", worker), ("dp_rank", "0")];
    let given = |title, predicted, reported| {
        case("KvrouteWorkerNotDelivering", title)
            .given(rows::WORKER_PREDICTED, &rank("w1"), predicted)
            .given(rows::WORKER_REPORTED, &rank("w1"), reported)
            .given(rows::WORKER_PREDICTED, &rank("w2"), "0+2000x60")
            .given(rows::WORKER_REPORTED, &rank("w2"), "0+2000x60")
    };
    vec![
        given("one worker reuses a quarter", "0+2000x60", "0+500x60").fires("40m", &rank("w1"), "25%"),
        given("both reuse all", "0+2000x60", "0+2000x60").stays_silent(&["40m"]),
        given("four minutes without reuse", "0+2000x60", "0+2000x10 20000+0x3 22000+2000x50")
            .stays_silent(&AROUND),
        given("no traffic", "0+0x60", "0+0x60").stays_silent(&["40m"]),
        given("little traffic", "0+100x60", "0+0x60").stays_silent(&["40m"]),
    ]
}
