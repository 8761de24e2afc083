//! The funnel as a table, one column a policy.

use std::fmt::Write;
use std::time::Duration;

use super::outcome::Outcome;
use crate::numbers::{count, thousands};

/// Width of the row names, and least width of a column.
const NAME_WIDTH: usize = 38;
const COLUMN_WIDTH: usize = 14;

/// A row: its name, and how to read its cell.
type RowOf = (&'static str, fn(&Outcome) -> String);

const ROWS: &[RowOf] = &[
    ("requests", |run| thousands(run.requests)),
    ("errors", |run| thousands(run.errors)),
    ("input tokens                      F0", |run| count(run.funnel.input)),
    ("best eligible cached prefix       F2", |run| count(run.funnel.best_eligible)),
    ("cached prefix on selected worker  F3", |run| count(run.funnel.selected)),
    ("reused, as engines reported       F4", |run| count(run.funnel.reused)),
    ("  last block, never delivered", |run| count(run.funnel.undelivered("last_block"))),
    ("  lost to a stale index", |run| count(run.funnel.undelivered("stale_index"))),
    ("  lost without explanation", |run| count(run.funnel.undelivered("unexplained"))),
    ("  reused beyond the promise", |run| {
        count(run.funnel.delivery.as_ref().map(|delivery| delivery.surplus))
    }),
    ("reused, as engines counted", |run| count(run.engine_reused)),
    ("reused share of input", |run| percent(run.funnel.share_of_input(run.funnel.reused))),
    ("time to first token  p50", |run| time(run.first_token.p50)),
    ("                     p90", |run| time(run.first_token.p90)),
    ("                     p99", |run| time(run.first_token.p99)),
];

/// The table, one line a row, with a line end behind each.
pub(crate) fn render(outcomes: &[Outcome]) -> String {
    let width = |outcome: &Outcome| outcome.policy.chars().count().max(COLUMN_WIDTH);
    let mut text = " ".repeat(NAME_WIDTH);
    for outcome in outcomes {
        let _ = write!(text, " {:>width$}", outcome.policy, width = width(outcome));
    }
    text.push('\n');
    for (name, cell) in ROWS {
        let _ = write!(text, "{name:<NAME_WIDTH$}");
        for outcome in outcomes {
            let _ = write!(text, " {:>width$}", cell(outcome), width = width(outcome));
        }
        text.push('\n');
    }
    text
}

/// One line about what the last policy saved against the first; `None` with fewer than two finished runs.
pub(crate) fn saving(outcomes: &[Outcome]) -> Option<String> {
    let [first, .., last] = outcomes else { return None };
    let (before, after) = (first.funnel.reused?, last.funnel.reused?);
    let (first, last) = (&first.policy, &last.policy);
    if after < before {
        return Some(format!("{last} reused {} tokens less than {first}.", thousands(before - after)));
    }
    let mut line = format!(
        "saved prefill: {last} computed {} prompt tokens less than {first}",
        thousands(after - before)
    );
    if before > 0 {
        let _ = write!(line, " ({:.1} times the reuse)", after as f64 / before as f64);
    }
    line.push('.');
    Some(line)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}

fn time(time: Option<Duration>) -> String {
    match time {
        None => "-".to_owned(),
        Some(time) if time < Duration::from_secs(1) => format!("{:.1} ms", time.as_secs_f64() * 1000.0),
        Some(time) => format!("{:.2} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::funnel::{Delivery, Funnel};
    use crate::demo::progress::Percentiles;

    fn outcome(policy: &str, reused: u64) -> Outcome {
        let millis = |millis| Some(Duration::from_millis(millis));
        Outcome {
            policy: policy.to_owned(),
            requests: 1600,
            errors: 0,
            first_error: None,
            funnel: Funnel {
                input: Some(1_000_000),
                best_eligible: Some(800_000),
                selected: None,
                reused: Some(reused),
                reported_input: Some(1_000_000),
                delivery: (policy == "kv")
                    .then(|| Delivery { lost: [("last_block".to_owned(), 1600)].into(), surplus: 9 }),
            },
            engine_reused: Some(reused),
            first_token: Percentiles { p50: millis(7), p90: millis(120), p99: millis(1500) },
            elapsed: Duration::from_secs(3),
        }
    }

    #[test]
    fn policies_stand_side_by_side_and_absent_stages_are_not_zero() {
        let text = render(&[outcome("round-robin", 200_000), outcome("kv", 700_000)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>(), ["round-robin", "kv"]);
        let cells = |row: usize| lines[row + 1][NAME_WIDTH..].split_whitespace().collect::<Vec<_>>();
        assert_eq!(cells(0), ["1,600", "1,600"]);
        assert_eq!(cells(4), ["-", "-"]);
        assert_eq!(cells(5), ["200,000", "700,000"]);
        assert_eq!([cells(6), cells(7), cells(9)], [["-", "1,600"], ["-", "0"], ["-", "9"]]);
        assert_eq!(cells(11), ["20.0%", "70.0%"]);
        assert_eq!(cells(12), ["7.0", "ms", "7.0", "ms"]);
        assert_eq!(cells(14), ["1.50", "s", "1.50", "s"]);
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{text}");
    }

    #[test]
    fn the_saving_is_the_difference_of_the_reuse() {
        let runs = [outcome("round-robin", 200_000), outcome("kv", 700_000)];
        assert_eq!(
            saving(&runs).unwrap(),
            "saved prefill: kv computed 500,000 prompt tokens less than round-robin (3.5 times the reuse)."
        );
        let [first, last] = runs;
        assert_eq!(
            saving(&[last, first.clone()]).unwrap(),
            "round-robin reused 500,000 tokens less than kv."
        );
        assert_eq!(saving(&[first]), None);
    }
}
