use super::*;
use crate::demo::funnel::{Funnel, Loss};
use crate::demo::progress::Percentiles;

/// A run that knows no cache unless it is named `kv`.
fn outcome(policy: &str, reused: u64) -> Outcome {
    let millis = |millis| Some(Duration::from_millis(millis));
    let loss = |stage, reason, tokens, seconds| Loss { stage, reason, tokens, seconds };
    let lost = vec![
        loss("unavailable", "evicted", 0, Some(0.0)),
        loss("unavailable", "not_cached", 190_000, Some(123.44)),
        loss("eligibility", "unhealthy", 0, None),
        loss("placement", "load", 10_000, Some(0.25)),
        loss("delivery", "last_block", 1600, None),
    ];
    let is_known = policy == "kv";
    Outcome {
        policy: policy.to_owned(),
        requests: 1600,
        errors: 0,
        first_error: None,
        funnel: Funnel {
            input: Some(1_000_000),
            history: None,
            anywhere: is_known.then_some(810_000),
            best_eligible: is_known.then_some(810_000),
            selected: is_known.then_some(800_000),
            reused: Some(reused),
            reported_input: Some(1_000_000),
            ledger_input: is_known.then_some(1_000_000),
            lost: if is_known { lost } else { Vec::new() },
            surplus: if is_known { vec![("delivery", 9)] } else { Vec::new() },
        },
        engine_reused: Some(reused),
        first_token: Percentiles { p50: millis(7), p90: millis(120), p99: millis(1500) },
        elapsed: Duration::from_secs(3),
    }
}

/// A row by what its name contains.
fn cells<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let line =
        table.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in\n{table}"));
    line[NAME_WIDTH..].split_whitespace().collect()
}

#[test]
fn policies_stand_side_by_side_and_absent_stages_are_not_zero() {
    let table = render(&[outcome("round-robin", 200_000), outcome("kv", 700_000)]);
    assert_eq!(table.lines().next().unwrap().split_whitespace().collect::<Vec<_>>(), ["round-robin", "kv"]);
    assert_eq!(cells(&table, "requests"), ["1,600", "1,600"]);
    assert_eq!(cells(&table, "selected worker"), ["-", "800,000"]);
    assert_eq!(cells(&table, "engines reported"), ["200,000", "700,000"]);
    assert_eq!(cells(&table, "beyond the promise"), ["-", "9"]);
    assert_eq!(cells(&table, "share of input"), ["20.0%", "70.0%"]);
    assert_eq!(cells(&table, "p50"), ["7.0", "ms", "7.0", "ms"]);
    assert_eq!(cells(&table, "p99"), ["1.50", "s", "1.50", "s"]);
}

#[test]
fn what_was_lost_stands_between_its_stages_with_its_time_and_what_cost_nothing_does_not() {
    let table = render(&[outcome("round-robin", 200_000), outcome("kv", 700_000)]);
    assert_eq!(cells(&table, "lost: not cached"), ["-", "190,000", "123", "s"]);
    assert_eq!(cells(&table, "lost: load"), ["-", "10,000", "0.2", "s"]);
    assert_eq!(cells(&table, "lost: last block"), ["-", "1,600"]);
    let at = |name| table.find(name).unwrap();
    let order =
        ["F0", "not cached", "any worker", "F2", "lost: load", "F3", "last block", "beyond", "F4"].map(at);
    assert!(order.is_sorted(), "{table}");
    assert!(!table.contains("evicted") && !table.contains("unhealthy"), "{table}");
}

#[test]
fn a_history_stands_between_what_is_new_and_what_was_lost() {
    let mut run = outcome("kv", 700_000);
    run.funnel.history = Some(900_000);
    let loss = |stage, reason, tokens| Loss { stage, reason, tokens, seconds: None };
    let before = [loss("new", "unseen", 100_000), loss("residency", "evicted", 90_100)];
    run.funnel.lost.splice(..2, before);
    run.funnel.surplus.push(("residency", 100));
    let table = render(&[run]);
    assert_eq!(cells(&table, "F1"), ["900,000"]);
    let names = ["F0", "lost: unseen", "F1", "lost: evicted", "cached beyond", "any worker"];
    assert!(names.map(|name| table.find(name).unwrap()).is_sorted(), "{table}");
    assert!(!render(&[outcome("kv", 1)]).contains("F1"), "without a history there is no such row");
}

#[test]
fn two_policies_fit_into_80_columns() {
    let mut runs = [outcome("round-robin", 200_000), outcome("kv", 700_000)];
    runs[0].funnel.input = Some(987_654_321);
    for line in render(&runs).lines().chain(summary(&runs).lines()) {
        assert!(line.chars().count() <= 80 && line.trim_end() == line, "{line:?}");
    }
}

#[test]
fn the_summary_tells_the_worst_loss_of_each_run_and_the_saving() {
    let text = summary(&[outcome("round-robin", 200_000), outcome("kv", 700_000)]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words,
        "kv lost most to not cached: 190,000 tokens (19.0% of the input, 123.4 s of prefill) were cached nowhere: they \
         were new, or had left long ago. saved prefill: kv computed 500,000 prompt tokens less than round-robin (3.5 \
         times the reuse)."
    );
}

#[test]
fn the_saving_is_the_difference_of_the_reuse() {
    let [first, last] = [outcome("round-robin", 200_000), outcome("kv", 700_000)];
    assert_eq!(saving(&[last, first.clone()]).unwrap(), "round-robin reused 500,000 tokens less than kv.");
    assert_eq!(saving(&[first]), None);
}
