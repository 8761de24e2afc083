//! The findings for people: a few lines a worker.

mod paint;

use std::fmt::Write;

use kvroute_core::{BlockSize, Blocks, Tokens};
use kvroute_engine::events::EventAddress;

use self::paint::Paint;
use super::collected::{Examined, Parity, Patient, StreamCheck, Trial, TrialResult};
use super::finding::{Diagnosis, Finding, Severity};
use crate::numbers::thousands;

/// Before everything that is said of a worker.
const INDENT: &str = "  ";

/// Everything, with colours or without.
pub(super) fn render(patients: &[Patient], diagnosis: &Diagnosis, has_colours: bool) -> String {
    let paint = Paint::new(has_colours);
    let mut text = String::new();
    for (patient, findings) in patients.iter().zip(&diagnosis.workers) {
        text.push_str(&worker(patient, findings, paint));
        text.push('\n');
    }
    if !diagnosis.fleet.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("between workers"));
        text.push_str(&listed(&diagnosis.fleet, paint));
        text.push('\n');
    }
    text.push_str(&summary(diagnosis));
    text
}

fn worker(patient: &Patient, findings: &[Finding], paint: Paint) -> String {
    let mut text = paint.bold(&patient.subject.url);
    if let Ok(examined) = &patient.examined {
        text.push_str(&facts(examined));
    } else {
        text.push('\n');
    }
    text.push_str(&listed(findings, paint));
    if findings.is_empty() {
        let _ = writeln!(text, "{INDENT}{}", paint.good("all well"));
    }
    text
}

fn facts(examined: &Examined) -> String {
    let probe = &examined.probe;
    let names: Vec<_> = probe.models.iter().map(|model| model.id.as_str()).collect();
    let mut text = format!("  {}", probe.engine);
    if let Some(version) = &probe.version {
        let _ = write!(text, " {version}");
    }
    let _ = writeln!(text, ", model {}", names.join(", "));
    let _ = writeln!(text, "{INDENT}{}", cache(examined));
    let _ = writeln!(text, "{INDENT}{}", events(&examined.streams));
    let _ = writeln!(text, "{INDENT}{}", trial(examined));
    if let Parity::Compared(check) = &examined.parity {
        let (compared, equal) = check.counts();
        let _ = writeln!(text, "{INDENT}tokenizer: {equal} of {compared} prompts become the same ids");
    }
    text
}

fn cache(examined: &Examined) -> String {
    let probe = &examined.probe;
    let mut parts = Vec::new();
    if let Some(role) = probe.role {
        parts.push(format!("role {}", role.as_str()));
    }
    if probe.dp_ranks > 1 {
        parts.push(format!("{} ranks", probe.dp_ranks));
    }
    if let Some(size) = probe.own_block_size().map(BlockSize::get) {
        parts.push(format!("blocks of {size} tokens"));
    }
    if let Some(capacity) = probe.kv_capacity.map(Blocks::get) {
        let size = probe.block_size.map_or(1, |size| u64::from(size.get()));
        parts.push(format!("room for {} tokens a rank", thousands(capacity.saturating_mul(size))));
    }
    if let Some(context) = probe.context_length.map(Tokens::get) {
        parts.push(format!("context {} tokens", thousands(context)));
    }
    if parts.is_empty() { "tells nothing of its cache".to_owned() } else { parts.join(", ") }
}

fn events(streams: &[StreamCheck]) -> String {
    let [first, others @ ..] = streams else { return "events: none".to_owned() };
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let replay = match &first.replay {
        None => "",
        Some(Ok(())) => ", replay answers",
        Some(Err(_)) => ", replay does not answer",
    };
    format!("events: {}{more}{replay}", address(&first.address))
}

/// Where events are, as a configuration would name it.
pub(super) fn address(address: &EventAddress) -> String {
    match address {
        EventAddress::Connect(endpoint) => endpoint.to_string(),
        EventAddress::Bind(endpoint) => format!("bind:{endpoint}"),
        EventAddress::Poll { url } => format!("{url}/kv_cache_events"),
    }
}

fn trial(examined: &Examined) -> String {
    match &examined.trial {
        Trial::NotSent(reason) => format!("the same prompt twice: not sent, {reason}"),
        Trial::Refused(_) => "the same prompt twice: refused".to_owned(),
        Trial::Done(result) => format!("the same prompt twice: {}", outcome(examined, result)),
    }
}

fn outcome(examined: &Examined, result: &TrialResult) -> String {
    let count = |tokens: Option<u64>| tokens.map_or_else(|| "unknown".to_owned(), thousands);
    let reuse = match result.reused() {
        Some(reused) => format!("{} of {} tokens reused", thousands(reused), count(result.prompt_tokens)),
        None => format!("{} tokens, reuse not reported", count(result.prompt_tokens)),
    };
    let heard: Vec<_> = examined.streams.iter().filter_map(|stream| stream.heard).collect();
    let blocks: u64 = heard.iter().map(|heard| heard.blocks).sum();
    let heard = if heard.is_empty() { String::new() } else { format!(", {blocks} blocks announced") };
    format!("{reuse}{heard}")
}

fn listed(findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    for finding in findings {
        let severity = paint.severity(finding.severity);
        let _ = writeln!(text, "{INDENT}{severity} {}: {}", finding.code, finding.message);
        let _ = writeln!(text, "{INDENT}        {} {}", paint.dim("do:"), finding.remedy);
    }
    text
}

fn summary(diagnosis: &Diagnosis) -> String {
    let of = |severity| diagnosis.count_from(severity);
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning) - of(Severity::Error));
    let hints = of(Severity::Hint) - of(Severity::Warning);
    let workers = counted(diagnosis.workers.len(), "worker");
    let [errors, warnings, hints] =
        [(errors, "error"), (warnings, "warning"), (hints, "hint")].map(|(count, noun)| counted(count, noun));
    format!("{workers}: {errors}, {warnings}, {hints}\n")
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
