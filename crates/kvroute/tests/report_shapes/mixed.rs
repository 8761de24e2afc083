//! Many requests at once, some of which are answered with odd reports: the clients see what the engines said, and the
//! router must have counted exactly that.

use std::collections::BTreeMap;

use kvroute_sim::{Faults, OddReport, SimConfig, SimEngine};
use kvroute_testkit::{Answer, Fleet};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::asking::{QUESTION, Shape, outcomes, parts, reported_input, reused};

const REQUESTS: usize = 320;

/// What a client reads of one answer's report.
#[derive(Debug, Default)]
struct Told {
    outcome: &'static str,
    reused: u64,
    input: u64,
}

#[tokio::test]
async fn one_run_of_many_odd_reports_adds_up() {
    let engine = |seed| {
        let odd_reports = vec![
            OddReport::Missing,
            OddReport::Null,
            OddReport::Negative,
            OddReport::Fraction,
            OddReport::Text,
            OddReport::Overflow,
            OddReport::AbovePrompt,
        ];
        let faults = Faults { odd_reports, odd_report_percent: Some(35), ..Faults::default() };
        SimConfig { seed, faults, ..SimConfig::default() }
    };
    let fleet = std::sync::Arc::new(Fleet::start(vec![engine(1), engine(2), engine(3)], "kv").await);
    let mut asking = JoinSet::new();
    for number in 0..REQUESTS {
        let (fleet, shapes) = (std::sync::Arc::clone(&fleet), Shape::all());
        let shape = shapes[number % shapes.len()];
        asking.spawn(async move {
            let answer = shape.ask(&fleet, &format!("{} {QUESTION}", number / 40)).await;
            read(shape, &answer)
        });
    }
    let told = asking.join_all().await;
    let scrape = fleet.at_rest().await;
    let mut counts = BTreeMap::new();
    for told in &told {
        *counts.entry(told.outcome).or_insert(0) += 1;
    }
    for (outcome, count) in &counts {
        assert_eq!(outcomes(&scrape, outcome), *count, "{outcome} of {counts:?}");
    }
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[]), REQUESTS as u64);
    assert!(counts.len() == 5 && counts["invalid"] > 20, "{counts:?}");
    assert_eq!(reused(&scrape), told.iter().map(|told| told.reused).sum::<u64>());
    assert_eq!(reported_input(&scrape), told.iter().map(|told| told.input).sum::<u64>());
    let stats: Vec<_> = fleet.engines.iter().map(SimEngine::stats).collect();
    let finished: u64 = stats.iter().map(|stats| stats.requests).sum();
    assert_eq!(finished, REQUESTS as u64);
}

/// The last usage of an answer, as an ordinary client reads it.
fn read(shape: Shape, answer: &Answer) -> Told {
    let parts = parts(answer);
    let of_part = |part: &Value| {
        let places =
            [part["usage"].clone(), part["response"]["usage"].clone(), part["message"]["usage"].clone()];
        places.into_iter().find(Value::is_object)
    };
    let usage = parts.iter().rev().find_map(of_part).unwrap();
    let (cached, prompt) = match (&usage["prompt_tokens"], &usage["input_tokens"]) {
        (Value::Null, input) if usage.get("input_tokens_details").is_some() => {
            (usage["input_tokens_details"].get("cached_tokens"), input.as_u64().unwrap())
        }
        (Value::Null, input) => {
            let read = usage["cache_read_input_tokens"].as_u64().unwrap_or(0);
            (usage.get("cache_read_input_tokens"), input.as_u64().unwrap() + read)
        }
        (prompt, _) => (usage["prompt_tokens_details"].get("cached_tokens"), prompt.as_u64().unwrap()),
    };
    let Some(cached) = cached else { return Told { outcome: "missing", ..Told::default() } };
    let Some(cached) = cached.as_u64() else { return Told { outcome: "invalid", ..Told::default() } };
    let outcome = match shape.is_counted() {
        false => "unchecked",
        true if cached > prompt => "impossible",
        true => "reported",
    };
    Told { outcome, reused: cached, input: prompt }
}
