//! A decision in words, and its candidates as a table.

mod table;

use std::fmt::Write;

use super::decision::{Candidate, Decision, Report, Shadow, rank_name};
use crate::numbers::{count, thousands};

/// The whole explanation; `now` is in milliseconds since the Unix epoch.
pub(crate) fn render(decision: &Decision, now: u64) -> String {
    let mut text = verdict(decision);
    text.push_str(&circumstances(decision, now));
    text.push('\n');
    text.push_str(&table::render(decision));
    text.push('\n');
    text.push_str(&caches(decision));
    for shadow in &decision.shadows {
        text.push_str(&shadow_line(shadow));
    }
    if decision.id.is_some() {
        text.push_str(&report_line(decision.report.as_ref()));
    }
    text
}

/// What was picked, of how many and why.
fn verdict(decision: &Decision) -> String {
    let verb = if decision.id.is_some() { "picked" } else { "would pick" };
    let considered = decision.candidates.len() as u64 + decision.left_out;
    let excluded = match considered.saturating_sub(decision.eligible) {
        0 => String::new(),
        excluded => format!(" ({excluded} excluded)"),
    };
    let (picked, reason) = (decision.picked(), in_words(&decision.reason));
    format!("{verb} {picked} of {}{excluded}: {reason}\n", decision.eligible)
}

fn circumstances(decision: &Decision, now: u64) -> String {
    let input = match decision.input_tokens {
        Some(tokens) => format!("{} prompt tokens", thousands(tokens)),
        None => "prompt not counted".to_owned(),
    };
    let mut line = format!("model {}, policy {}, {input}", decision.model, decision.policy);
    if decision.waited_seconds > 0.0 {
        let _ = write!(line, ", after {:.3} s in the queue", decision.waited_seconds);
    }
    line.push('\n');
    if let Some(id) = &decision.id {
        let request = decision.request_id.as_deref().unwrap_or("-");
        let ago = now.saturating_sub(decision.at) / 1000;
        let _ = writeln!(line, "decision {id} for request {request}, {ago} s ago");
    }
    line
}

/// What was cached where, and what the decision gave up.
fn caches(decision: &Decision) -> String {
    let (Some(anywhere), Some(best), Some(selected)) =
        (decision.best_cached_tokens, decision.best_eligible_cached_tokens, decision.selected_cached_tokens)
    else {
        return "cached prefix: not looked up\n".to_owned();
    };
    let mut text = format!(
        "cached prefix: {} tokens on the picked worker, {} on the best that could be picked, {} on any\n",
        thousands(selected),
        thousands(best),
        thousands(anywhere)
    );
    if let Some(given_up) = beyond(best, selected) {
        let holder = holder(decision, best, true);
        let _ = writeln!(
            text,
            "lost by the decision: {given_up} tokens{}{}",
            because(decision.placement_reason.as_deref()),
            holder.map(dearer).unwrap_or_default()
        );
    } else {
        text.push_str("lost by the decision: nothing\n");
    }
    if let Some(out_of_reach) = beyond(anywhere, best) {
        let holder = holder(decision, anywhere, false);
        let _ = writeln!(
            text,
            "out of reach: {out_of_reach} tokens{}{}",
            because(decision.eligibility_reason.as_deref()),
            holder.map(|holder| format!(" on {}", holder.name())).unwrap_or_default()
        );
    }
    text
}

/// The difference in tokens, where there is one.
fn beyond(more: u64, less: u64) -> Option<String> {
    more.checked_sub(less).filter(|difference| *difference > 0).map(thousands)
}

/// A candidate with just that prefix.
fn holder(decision: &Decision, tokens: u64, is_eligible: bool) -> Option<&Candidate> {
    decision.candidates.iter().find(|candidate| {
        candidate.cached_tokens == Some(tokens) && candidate.excluded.is_none() == is_eligible
    })
}

fn dearer(holder: &Candidate) -> String {
    match holder.cost {
        Some(cost) => format!(" on {}, which would have cost {cost:.2}", holder.name()),
        None => format!(" on {}", holder.name()),
    }
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(" ({})", in_words(reason))).unwrap_or_default()
}

fn shadow_line(shadow: &Shadow) -> String {
    let policy = &shadow.policy;
    match (&shadow.worker_id, shadow.dp_rank) {
        (Some(worker), Some(rank)) => {
            let (name, cached) = (rank_name(worker, rank), count(shadow.selected_cached_tokens));
            format!("{policy} would have picked {name}, with {cached} tokens cached\n")
        }
        _ => format!("{policy} would have found no worker\n"),
    }
}

fn report_line(report: Option<&Report>) -> String {
    let Some(report) = report else { return "report: none yet, the request is still running\n".to_owned() };
    let mut line = format!("report: {}", in_words(&report.outcome));
    match &report.report {
        Some(worth) => {
            let _ = write!(line, ", {}", report_in_words(worth));
        }
        None => line.push_str(", none expected"),
    }
    if report.reused_tokens.is_some() {
        let (input, reused) = (count(report.input_tokens), count(report.reused_tokens));
        let _ = write!(line, ": the engine reused {reused} of {input} tokens");
    }
    if let Some(lost) = report.lost_tokens.filter(|lost| *lost > 0) {
        let _ = write!(line, ", {} less than were cached", thousands(lost));
    }
    line.push('\n');
    line
}

fn report_in_words(worth: &str) -> &str {
    match worth {
        "reported" => "valid report",
        "unchecked" => "report of a prompt that was not counted",
        "impossible" => "report beyond the prompt",
        "mismatched" => "report about another prompt length",
        "invalid" => "invalid report",
        "missing" => "no report",
        "unfinished" => "no report before the end",
        "ambiguous" => "no single report of several prompts",
        "excluded" => "report not asked for",
        other => other,
    }
}

/// A name of the wire as words.
fn in_words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests;
