//! The candidates of a decision, one a line.

use std::fmt::Write;

use serde_json::Value;

use super::super::decision::{Candidate, Decision};
use super::in_words;
use crate::numbers::{count, thousands};

/// Least width of a column of numbers.
const NARROWEST: usize = 7;

/// The table, and below it what is not in it.
pub(super) fn render(decision: &Decision) -> String {
    let terms = term_names(decision);
    let mut rows = vec![heading(&terms)];
    rows.extend(decision.candidates.iter().map(|candidate| row(decision, candidate, &terms)));
    let mut text = laid_out(&rows);
    if decision.left_out > 0 {
        let _ = writeln!(text, "and {} more that are not kept", thousands(decision.left_out));
    }
    if !terms.is_empty() {
        let size = decision.block_size;
        let _ = writeln!(text, "cost = prefill + decode + requests + recent, in blocks of {size} tokens");
    }
    if decision.candidates.iter().any(|candidate| candidate.credit_withheld) {
        text.push_str("* not credited: the source of this knowledge is in doubt\n");
    }
    text
}

/// The terms by the router's own names, in its order.
fn term_names(decision: &Decision) -> Vec<&str> {
    let weighed = decision.candidates.iter().find(|candidate| !candidate.terms.is_empty());
    weighed.into_iter().flat_map(|candidate| candidate.terms.keys().map(String::as_str)).collect()
}

fn heading(terms: &[&str]) -> Vec<String> {
    let mut cells = vec![String::new(), "worker".to_owned(), "cached".to_owned(), "active".to_owned()];
    cells.extend(terms.iter().map(|term| (*term).to_owned()));
    if !terms.is_empty() {
        cells.push("cost".to_owned());
    }
    cells.push("excluded".to_owned());
    cells
}

fn row(decision: &Decision, candidate: &Candidate, terms: &[&str]) -> Vec<String> {
    let mark = if decision.is_picked(candidate) { ">" } else { " " };
    let doubt = if candidate.credit_withheld { "*" } else { "" };
    let cached = format!("{}{doubt}", count(candidate.cached_tokens));
    let mut cells = vec![mark.to_owned(), candidate.name(), cached, thousands(candidate.active_requests)];
    let blocks = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |blocks| format!("{blocks:.2}"));
    cells.extend(terms.iter().map(|term| blocks(candidate.terms.get(*term).and_then(Value::as_f64))));
    if !terms.is_empty() {
        cells.push(blocks(candidate.cost));
    }
    cells.push(candidate.excluded.as_deref().map(in_words).unwrap_or_default());
    cells
}

/// Mark, name and exclusion stand left in their columns, numbers right.
fn laid_out(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(widest).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = match column {
                0 => write!(line, "{cell:<width$} "),
                1 => write!(line, "{cell:<width$}"),
                _ if column + 1 == columns => write!(line, " {cell}"),
                _ => write!(line, " {cell:>width$}", width = width.max(NARROWEST)),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
