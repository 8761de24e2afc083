//! What holds over all models and phases, and what must be gone when nothing is in flight.

use std::collections::BTreeMap;

use super::account::whole;
use super::equation::Findings;
use crate::Exposition;

/// Whatever is booked, queued or under way.
const LOAD: [&str; 4] = [
    "dynamo_frontend_worker_active_decode_blocks",
    "dynamo_frontend_worker_active_prefill_tokens",
    "dynamo_frontend_stage_requests",
    "dynamo_frontend_router_queue_pending_requests",
];

const ATTEMPTS: &str = "kvroute_attempts_total";
const REQUESTS: &str = "kvroute_requests_total";
const LOST: &str = "kvroute_router_reuse_lost_tokens_total";
const SECONDS: &str = "kvroute_router_lost_prefill_seconds_total";

pub(super) fn check(scrape: &Exposition, has_lost_workers: bool, findings: &mut Findings) {
    findings.about("all");
    check_load(scrape, findings);
    check_bookings(scrape, findings);
    check_workers(scrape, has_lost_workers, findings);
    check_seconds(scrape, findings);
    for model in models(scrape) {
        findings.about(format!("requests of {model}"));
        check_requests(scrape, &model, findings);
    }
}

fn check_load(scrape: &Exposition, findings: &mut Findings) {
    for name in LOAD {
        for (labels, value) in scrape.family(name) {
            findings.holds(value == 0.0, || format!("{name} {labels:?} is {value} at rest"));
        }
    }
}

fn check_bookings(scrape: &Exposition, findings: &mut Findings) {
    let attempts = ("attempts", sum(scrape, ATTEMPTS, &[]));
    let booked = sum(scrape, "dynamo_component_router_requests_started_total", &[]);
    let dispatched = sum(scrape, "dynamo_component_router_requests_total", &[]);
    findings.equal(&[("bookings", booked)], &[attempts]);
    findings.at_most(&[("dispatched", dispatched)], &[attempts]);
}

/// What a worker that left had compared is gone with it.
fn check_workers(scrape: &Exposition, has_lost_workers: bool, findings: &mut Findings) {
    for part in ["predicted", "reported"] {
        let of_workers = sum(scrape, &format!("kvroute_reuse_worker_{part}_tokens_total"), &[]);
        let compared = sum(scrape, &format!("kvroute_router_reuse_compared_{part}_tokens_total"), &[]);
        let (of_workers, compared) = ([(part, of_workers)], [("compared", compared)]);
        match has_lost_workers {
            true => findings.at_most(&of_workers, &compared),
            false => findings.equal(&of_workers, &compared),
        }
    }
}

/// Only what was lost takes time.
fn check_seconds(scrape: &Exposition, findings: &mut Findings) {
    for (labels, seconds) in scrape.family(SECONDS) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let tokens = scrape.sum(LOST, &labels);
        findings.holds(tokens.is_some(), || format!("{SECONDS} {labels:?} without its tokens"));
        let is_lost = tokens.is_some_and(|tokens| tokens > 0.0);
        findings.holds(seconds == 0.0 || (seconds > 0.0 && is_lost), || {
            format!("{seconds} s were lost with {tokens:?} tokens, {labels:?}")
        });
    }
}

/// Of a request that is over the last attempt says how, unless it had none. Where prompts and answers have workers of their
/// own a request has several attempts that end well.
fn check_requests(scrape: &Exposition, model: &str, findings: &mut Findings) {
    let model = ("model", model);
    let requests = |outcome| sum(scrape, REQUESTS, &[model, ("outcome", outcome)]);
    let attempts = |outcome| sum(scrape, ATTEMPTS, &[model, ("outcome", outcome), ("phase", "aggregated")]);
    let is_aggregated =
        sum(scrape, ATTEMPTS, &[model]) == sum(scrape, ATTEMPTS, &[model, ("phase", "aggregated")]);
    if is_aggregated {
        let completed = ("completed attempts", attempts("completed"));
        findings.equal(&[("completed requests", requests("completed"))], &[completed]);
        findings
            .at_most(&[("failed requests", requests("failed"))], &[("failed attempts", attempts("failed"))]);
        let cancelled = ("cancelled attempts", attempts("cancelled"));
        findings.at_most(&[cancelled], &[("cancelled requests", requests("cancelled"))]);
    }
    let decisions = sum(scrape, "kvroute_decisions_total", &[model]);
    findings.equal(&[("decisions", decisions)], &[("attempts", sum(scrape, ATTEMPTS, &[model]))]);
    let kept = ("recorded", sum(scrape, "kvroute_decisions_recorded_total", &[model]));
    let unkept = ("unrecorded", sum(scrape, "kvroute_decisions_unrecorded_total", &[model]));
    findings.equal(&[("decisions", decisions)], &[kept, unkept]);
    let of_shadows = |part: &str| by_policy(scrape, &format!("kvroute_shadow_{part}_tokens_total"), model);
    let compared = of_shadows("compared_input");
    for (policy, selected) in of_shadows("selected_cached") {
        let compared = compared.get(&policy).copied().unwrap_or_default();
        findings.at_most(&[("selected by a shadow", selected)], &[("compared with it", compared)]);
    }
}

fn by_policy(scrape: &Exposition, name: &str, (label, model): (&str, &str)) -> BTreeMap<String, u64> {
    let of_model = scrape.family(name).into_iter().filter(|(labels, _)| labels[label] == model);
    of_model.map(|(labels, value)| (labels["policy"].clone(), whole(value))).collect()
}

fn models(scrape: &Exposition) -> Vec<String> {
    let mut models: Vec<_> =
        scrape.family(ATTEMPTS).into_iter().map(|(labels, _)| labels["model"].clone()).collect();
    models.sort();
    models.dedup();
    models
}

fn sum(scrape: &Exposition, name: &str, labels: &[(&str, &str)]) -> u64 {
    scrape.sum(name, labels).map_or(0, whole)
}
