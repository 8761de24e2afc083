//! The funnel as a table, two columns a policy: tokens, and the time that the lost ones take to be computed.
//!
//! Between two stages of the funnel stands what was lost there, by reason. A reason that cost nobody anything has no row:
//! there are two dozen of them.

use std::fmt::Write;
use std::time::Duration;

use super::losses;
use super::outcome::Outcome;
use crate::numbers::{count, thousands};

/// Width of the row names, and least widths of the two columns of a policy: two policies fit into 80 columns.
const NAME_WIDTH: usize = 38;
const VALUE_WIDTH: usize = 11;
const TIME_WIDTH: usize = 8;

/// A row: its name, and its two cells for each run.
struct Row {
    name: String,
    cells: Vec<Cell>,
}

/// What a run has in a row, and the time of it where that is told.
struct Cell {
    value: String,
    time: String,
}

/// How to read a row of which there is always one.
type ValueOf = fn(&Outcome) -> String;

// === impl Row ===

impl Row {
    fn of(name: &str, outcomes: &[Outcome], value: ValueOf) -> Self {
        let cell = |outcome| Cell { value: value(outcome), time: String::new() };
        Self { name: name.to_owned(), cells: outcomes.iter().map(cell).collect() }
    }

    /// What one reason cost.
    fn of_loss(stage: &str, reason: &str, outcomes: &[Outcome]) -> Self {
        let cell = |outcome: &Outcome| {
            let loss = outcome.funnel.loss(stage, reason);
            let seconds = loss.and_then(|loss| loss.seconds).filter(|seconds| *seconds > 0.0);
            Cell {
                value: count(loss.map(|loss| loss.tokens)),
                time: seconds.map(in_seconds).unwrap_or_default(),
            }
        };
        let name = format!("  lost: {}", reason.replace('_', " "));
        Self { name, cells: outcomes.iter().map(cell).collect() }
    }
}

/// The table, one line a row, with a line end behind each.
pub(crate) fn render(outcomes: &[Outcome]) -> String {
    let rows = rows(outcomes);
    let width = |run: usize| {
        let cells = rows.iter().map(|row| row.cells[run].value.chars().count());
        cells.max().unwrap_or_default().max(VALUE_WIDTH)
    };
    let widths: Vec<_> = (0..outcomes.len()).map(width).collect();
    let mut text = " ".repeat(NAME_WIDTH);
    for (outcome, width) in outcomes.iter().zip(&widths) {
        let _ = write!(text, " {:>width$}", outcome.policy, width = width + TIME_WIDTH);
    }
    text.push('\n');
    for Row { name, cells } in &rows {
        let _ = write!(text, "{name:<NAME_WIDTH$}");
        for (Cell { value, time }, width) in cells.iter().zip(&widths) {
            let _ = write!(text, " {value:>width$}{time:>TIME_WIDTH$}");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// What each policy lost most of, and what the last one saved against the first.
pub(crate) fn summary(outcomes: &[Outcome]) -> String {
    let worst = outcomes.iter().filter_map(losses::worst);
    let lines: Vec<_> = worst.chain(saving(outcomes)).collect();
    lines.iter().map(|line| format!("\n{}", losses::wrapped(line))).collect()
}

fn rows(outcomes: &[Outcome]) -> Vec<Row> {
    let row = |name: &str, value: ValueOf| vec![Row::of(name, outcomes, value)];
    let lost = |stages: &[&str]| stages.iter().flat_map(|stage| lost_at(stage, outcomes)).collect();
    let parts: [Vec<Row>; 17] = [
        row("requests", |run| thousands(run.requests)),
        row("errors", |run| thousands(run.errors)),
        row("input tokens                      F0", |run| count(run.funnel.input)),
        lost(&["new"]),
        history(outcomes).into_iter().collect(),
        lost(&["residency", "unavailable"]),
        beyond("  cached beyond what is remembered", "residency", outcomes).into_iter().collect(),
        row("cached prefix on any worker       A", |run| count(run.funnel.anywhere)),
        lost(&["eligibility"]),
        row("best eligible cached prefix       F2", |run| count(run.funnel.best_eligible)),
        lost(&["placement"]),
        row("cached prefix on selected worker  F3", |run| count(run.funnel.selected)),
        lost(&["delivery"]),
        beyond("  reused beyond the promise", "delivery", outcomes).into_iter().collect(),
        row("reused, as engines reported       F4", |run| count(run.funnel.reused)),
        row("reused, as engines counted", |run| count(run.engine_reused)),
        outcome_rows(outcomes),
    ];
    parts.into_iter().flatten().collect()
}

fn outcome_rows(outcomes: &[Outcome]) -> Vec<Row> {
    let rows: [(&str, ValueOf); 4] = [
        ("reused share of input", |run| percent(run.funnel.share_of_input(run.funnel.reused))),
        ("time to first token  p50", |run| time(run.first_token.p50)),
        ("                     p90", |run| time(run.first_token.p90)),
        ("                     p99", |run| time(run.first_token.p99)),
    ];
    rows.into_iter().map(|(name, value)| Row::of(name, outcomes, value)).collect()
}

/// The reasons of a stage that cost some run something, in the order of the ledger.
fn lost_at(stage: &str, outcomes: &[Outcome]) -> Vec<Row> {
    let mut reasons: Vec<&str> = Vec::new();
    for loss in outcomes.iter().flat_map(|outcome| outcome.funnel.lost_at(stage)) {
        if !reasons.contains(&loss.reason) {
            reasons.push(loss.reason);
        }
    }
    let costs = |outcome: &Outcome, reason: &str| {
        outcome.funnel.loss(stage, reason).is_some_and(|loss| loss.tokens > 0)
    };
    reasons.retain(|reason| outcomes.iter().any(|outcome| costs(outcome, reason)));
    reasons.into_iter().map(|reason| Row::of_loss(stage, reason, outcomes)).collect()
}

/// Without a history the stage does not exist.
fn history(outcomes: &[Outcome]) -> Option<Row> {
    let is_any = outcomes.iter().any(|run| run.funnel.history.is_some());
    is_any.then(|| Row::of("computed before, cached or not    F1", outcomes, |run| count(run.funnel.history)))
}

/// What a stage had more than the one before it; no row where there was no such thing.
fn beyond(name: &str, stage: &'static str, outcomes: &[Outcome]) -> Option<Row> {
    let surplus = |run: &Outcome| run.funnel.surplus_at(stage);
    let is_any = outcomes.iter().any(|run| surplus(run).unwrap_or(0) > 0);
    let cell = |run| Cell { value: count(surplus(run)), time: String::new() };
    is_any.then(|| Row { name: name.to_owned(), cells: outcomes.iter().map(cell).collect() })
}

/// One line about what the last policy saved against the first; `None` with fewer than two finished runs.
fn saving(outcomes: &[Outcome]) -> Option<String> {
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
    share.map_or_else(|| "-".to_owned(), losses::percent)
}

fn in_seconds(seconds: f64) -> String {
    if seconds < 100.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

fn time(time: Option<Duration>) -> String {
    match time {
        None => "-".to_owned(),
        Some(time) if time < Duration::from_secs(1) => format!("{:.1} ms", time.as_secs_f64() * 1000.0),
        Some(time) => format!("{:.2} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests;
