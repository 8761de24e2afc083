//! Every shape of a report: counted as the engine counts, and passed on as the engine wrote it.

use kvroute_router::config::TokenizerSource;
use kvroute_sim::{Faults, PrivateReport, SimConfig};
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};

use crate::asking::{QUESTION, Shape, outcomes, parts, reported_input, reused};

#[tokio::test]
async fn what_is_counted_is_what_the_engine_counted() {
    for shape in Shape::all() {
        let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
        for text in [QUESTION, QUESTION, "Tell me more.", QUESTION] {
            shape.ask(&fleet, text).await;
        }
        let (scrape, stats) = (fleet.at_rest().await, fleet.engines[0].stats());
        assert!(stats.reused_tokens > 100, "{shape:?}: {stats:?}");
        assert_eq!(reused(&scrape), stats.reused_tokens, "{shape:?}");
        assert_eq!(reported_input(&scrape), stats.prompt_tokens, "{shape:?}");
        let expected = "kvroute_router_reuse_expected_input_tokens_total";
        assert_eq!(scrape.count(expected, &[]), stats.prompt_tokens, "{shape:?}");
        let outcome = if shape.is_counted() { "reported" } else { "unchecked" };
        assert_eq!(outcomes(&scrape, outcome), 4, "{shape:?}");
        assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[]), 4, "{shape:?}");
        let endpoint = [("endpoint", shape.endpoint.path()), ("outcome", "completed")];
        assert_eq!(scrape.count("kvroute_requests_total", &endpoint), 4);
        fleet.stop().await;
    }
}

/// Without a template a prompt has no tokens here: it goes by load, and no index is asked, whatever the policy.
#[tokio::test]
async fn conversations_of_other_apis_go_by_load_and_are_counted_as_uncounted() {
    // The workers' tokenize endpoints could not help either, and are not asked.
    let asks_workers = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].tokenizer = TokenizerSource::Engine;
        config
    };
    let fleet = Fleet::start_with(vec![SimConfig::default(); 2], asks_workers).await;
    for shape in Shape::all() {
        shape.ask(&fleet, QUESTION).await;
    }
    let scrape = fleet.at_rest().await;
    let uncounted = scrape.count("kvroute_uncounted_attempts_total", &[("reason", "template")]);
    assert_eq!((uncounted, scrape.count("kvroute_uncounted_attempts_total", &[])), (4, 4));
    assert_eq!(scrape.count("dynamo_component_router_input_sequence_tokens_count", &[]), 4);
    let decisions = fleet.client.get(&fleet.admin("/api/decisions")).await.json();
    let of_uncounted = |decision: &&Value| decision["input_tokens"].is_null();
    let uncounted: Vec<_> = decisions.as_array().unwrap().iter().filter(of_uncounted).collect();
    assert_eq!(uncounted.len(), 4, "{decisions}");
    for decision in uncounted {
        assert_eq!(decision["best_eligible_cached_tokens"], Value::Null, "{decision}");
    }
    fleet.stop().await;
}

#[tokio::test]
async fn every_byte_of_every_shape_passes() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    for shape in Shape::all() {
        let (path, body) = (shape.endpoint.path(), shape.asks(QUESTION));
        let (through, engine) = (fleet.data(path), format!("{}{path}", fleet.engines[0].url()));
        let mut answers = Vec::new();
        // The first one fills the cache, so that those behind it find the same.
        for url in [&through, &through, &engine] {
            let answer = fleet.client.post_with(url, &[("x-request-id", "the-same")], &body).await;
            answers.push(without_times(&answer.text()));
        }
        assert_eq!(answers[1], answers[2], "{shape:?}");
    }
    fleet.stop().await;
}

/// The time in an answer may pass from one second to the next.
fn without_times(text: &str) -> String {
    let digits = |rest: &str| rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let mut left = String::new();
    let mut pieces = text.split("\"created");
    left += pieces.next().unwrap_or_default();
    for piece in pieces {
        let colon = piece.find(':').unwrap() + 1;
        left += "\"created";
        left += &piece[..colon];
        left += &piece[colon + digits(&piece[colon..])..];
    }
    left
}

#[tokio::test]
async fn the_private_report_comes_first_and_is_nobody_elses_business() {
    for place in [PrivateReport::FirstChunk, PrivateReport::LastChunk] {
        let faults = Faults { engine_data: Some(place), no_report: true, ..Faults::default() };
        let fleet = Fleet::start(vec![SimConfig { faults, ..SimConfig::default() }], "kv").await;
        for shape in Shape::all() {
            for _ in 0..2 {
                let answer = shape.ask(&fleet, QUESTION).await;
                assert!(!answer.text().contains("engine_data"), "{shape:?}: {}", answer.text());
                assert!(!parts(&answer).contains(&json!({})), "{shape:?}: an empty chunk is left");
            }
        }
        let (scrape, stats) = (fleet.at_rest().await, fleet.engines[0].stats());
        assert_eq!((outcomes(&scrape, "reported"), outcomes(&scrape, "unchecked")), (8, 8));
        assert_eq!((reused(&scrape), reported_input(&scrape)), (stats.reused_tokens, stats.prompt_tokens));
        fleet.stop().await;
    }
}

#[tokio::test]
async fn an_alias_is_sent_on_by_every_endpoint_as_the_models_own_name() {
    let with_alias = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].model = Some(kvroute_core::ModelName::new("sim"));
        config.router.pools[0].aliases = vec!["nick".to_owned()];
        config
    };
    let fleet = Fleet::start_with(vec![SimConfig::default()], with_alias).await;
    for shape in Shape::all() {
        let mut body = shape.asks(QUESTION);
        body["model"] = json!("nick");
        let answer = fleet.client.post(&fleet.data(shape.endpoint.path()), &body).await;
        assert_eq!(answer.status, 200, "{shape:?}: {}", answer.text());
    }
    fleet.stop().await;
}
