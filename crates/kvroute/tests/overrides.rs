//! What a request's headers may ask of the selection, and who may ask it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::time::Duration;

use kvroute_router::config::WorkerConfig;
use kvroute_server::ServeConfig;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Answer, CapturedLog, Fleet, engine, kept_address, server_config};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const TOLD: [&str; 3] = ["x-kvroute-worker", "x-kvroute-predicted-cached-tokens", "x-kvroute-decision"];

fn chat(text: &str) -> Value {
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 2})
}

/// A prompt of several blocks that begins like no other number's.
fn long(number: usize) -> Value {
    chat(&format!("{number} times over the same long story about caches. ").repeat(40))
}

/// A router that trusts this test, unless it is told not to.
async fn fleet(policy: &str, change: impl FnOnce(&mut ServeConfig)) -> Fleet {
    fleet_of(vec![SimConfig::default(); 3], policy, change).await
}

async fn fleet_of(engines: Vec<SimConfig>, policy: &str, change: impl FnOnce(&mut ServeConfig)) -> Fleet {
    let config = |urls: &[String]| {
        let mut config = server_config(urls, policy);
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        change(&mut config);
        config
    };
    Fleet::start_with(engines, config).await
}

/// Whole answers of its only engine do not come to their end.
async fn fleet_that_fails(faults: Faults, change: impl FnOnce(&mut ServeConfig)) -> Fleet {
    let never_answers = faults.hang;
    fleet_of(vec![SimConfig { faults, ..SimConfig::default() }], "kv", |config| {
        if never_answers {
            config.router.pools[0].timeouts.first_byte = Duration::from_millis(300);
        }
        change(config);
    })
    .await
}

/// The ways in which they do not, with what the client gets.
fn failures() -> [(Faults, u16); 3] {
    [
        (Faults { hang: true, ..Faults::default() }, 504),
        (Faults { break_after_chunks: Some(1), ..Faults::default() }, 502),
        (Faults { refuse_status: Some(503), ..Faults::default() }, 503),
    ]
}

async fn fleet_of_strangers(policy: &str) -> Fleet {
    fleet(policy, |config| config.trusted.clear()).await
}

/// Names of the workers, in the order of the engines.
fn names(fleet: &Fleet) -> Vec<String> {
    fleet.engines.iter().map(|engine| engine.url().trim_start_matches("http://").to_owned()).collect()
}

fn requests(fleet: &Fleet) -> Vec<u64> {
    fleet.engines.iter().map(|engine| engine.stats().requests).collect()
}

async fn ask(fleet: &Fleet, headers: &[(&str, &str)], body: &Value) -> Answer {
    fleet.client.post_with(&fleet.data(CHAT), headers, body).await
}

async fn served(fleet: &Fleet, headers: &[(&str, &str)], body: &Value) -> Answer {
    let answer = ask(fleet, headers, body).await;
    assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
    answer
}

/// Waits until the events have told that a worker holds every whole block of an answered prompt.
async fn until_known(fleet: &Fleet, worker: &str, answer: &Answer) {
    let prompt = answer.json()["usage"]["prompt_tokens"].as_u64().unwrap();
    let blocks = prompt / u64::from(SimConfig::default().block_size.get());
    let holds =
        |status: &Value| status["id"] == worker && status["ranks"][0]["blocks"].as_u64() >= Some(blocks);
    let workers = fleet.admin("/api/workers");
    fleet.client.until(&workers, |answer| answer.json().as_array().unwrap().iter().any(holds)).await;
}

fn assert_refused(answer: &Answer, status: u16, code: &str, named: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let error = answer.error();
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    for header in TOLD {
        assert_eq!(answer.header(header), None, "a refused request went nowhere");
    }
}

#[tokio::test]
async fn a_pinned_request_goes_where_its_caller_says_and_is_told_so() {
    let fleet = fleet("kv", |_| {}).await;
    let workers = names(&fleet);
    for (index, worker) in workers.iter().enumerate() {
        let before = requests(&fleet);
        for pin in [worker.clone(), format!("{worker}/0")] {
            let answer = served(&fleet, &[("x-kvroute-worker", &pin)], &long(0)).await;
            assert_eq!(answer.header("x-kvroute-worker"), Some(format!("{worker}/0").as_str()));
        }
        let mut expected = before;
        expected[index] += 2;
        assert_eq!(requests(&fleet), expected);
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_decisions_total", &[("reason", "pinned")]), 6);
    fleet.stop().await;
}

#[tokio::test]
async fn a_pin_at_nobody_is_refused_with_the_workers_that_there_are() {
    let fleet = fleet("kv", |_| {}).await;
    let worker = names(&fleet).remove(1);
    for pin in ["127.0.0.1:1", &format!("{worker}/7"), &format!("http://{worker}")] {
        let answer = ask(&fleet, &[("x-kvroute-worker", pin)], &chat("hello")).await;
        assert_refused(&answer, 400, "unknown_worker", &worker);
    }
    assert_eq!(requests(&fleet), [0, 0, 0]);
    fleet.stop().await;
}

#[tokio::test]
async fn a_pin_at_a_worker_that_has_not_joined_yet_was_the_clients_mistake() {
    let late = kept_address();
    let fleet = fleet_of(vec![SimConfig::default()], "direct", |config| {
        let pool = &mut config.router.pools[0];
        pool.model = Some(kvroute_core::ModelName::new("sim"));
        pool.workers.push(WorkerConfig::at(format!("http://{late}")));
    })
    .await;
    let unknown = ask(&fleet, &[("x-kvroute-worker", "127.0.0.1:1")], &chat("hello")).await;
    assert_refused(&unknown, 400, "unknown_worker", &late.to_string());
    let pin = late.to_string();
    let headers = [("x-kvroute-worker", pin.as_str())];
    let come = async {
        let pending =
            "dynamo_frontend_router_queue_pending_requests{model=\"sim\",worker_type=\"decode\"} 1\n";
        fleet.client.until(&fleet.admin("/metrics"), |answer| answer.text().contains(pending)).await;
        engine(SimConfig { listen: late, ..SimConfig::default() }).await
    };
    let question = chat("hello");
    let (answer, engine) = tokio::join!(ask(&fleet, &headers, &question), come);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-kvroute-worker"), Some(format!("{late}/0").as_str()));
    fleet.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn a_trusted_caller_is_told_the_prediction_and_the_name_of_the_decision() {
    let fleet = fleet("kv", |_| {}).await;
    let pin = names(&fleet).remove(0);
    let first = served(&fleet, &[("x-kvroute-worker", &pin)], &long(1)).await;
    assert_eq!(first.header("x-kvroute-predicted-cached-tokens"), Some("0"));
    until_known(&fleet, &pin, &first).await;
    let second = served(&fleet, &[], &long(1)).await;
    assert_eq!(second.header("x-kvroute-worker"), Some(format!("{pin}/0").as_str()), "its cache is there");
    let predicted: u64 = second.header("x-kvroute-predicted-cached-tokens").unwrap().parse().unwrap();
    let usage = &second.json()["usage"];
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], predicted, "{usage}");
    assert!(predicted > 0 && predicted < usage["prompt_tokens"].as_u64().unwrap());
    let decision = second.header("x-kvroute-decision").unwrap();
    let record = fleet.client.get(&fleet.admin(&format!("/api/decisions/{decision}"))).await.json();
    assert_eq!((&record["id"], &record["worker_id"]), (&json!(decision), &json!(pin)));
    fleet.stop().await;
}

#[tokio::test]
async fn a_stream_is_explained_as_an_answer_is() {
    let fleet = fleet("round-robin", |_| {}).await;
    let mut body = long(2);
    body["stream"] = json!(true);
    let answer = served(&fleet, &[], &body).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"));
    assert!(answer.header("x-kvroute-worker").is_some() && answer.header("x-kvroute-decision").is_some());
    fleet.stop().await;
}

#[tokio::test]
async fn only_answers_were_explained_and_failures_were_not() {
    for (faults, status) in failures() {
        let fleet = fleet_that_fails(faults, |_| {}).await;
        let answer = ask(&fleet, &[], &chat("hello")).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        let worker = names(&fleet).remove(0);
        assert_eq!(answer.header("x-kvroute-worker"), Some(format!("{worker}/0").as_str()), "{status}");
        assert_eq!(answer.header("x-kvroute-predicted-cached-tokens"), Some("0"), "{status}");
        let decision = answer.header("x-kvroute-decision").unwrap();
        fleet.at_rest().await;
        let record = fleet.client.get(&fleet.admin(&format!("/api/decisions/{decision}"))).await.json();
        assert_eq!(record["request_id"], json!(answer.header("x-request-id").unwrap()));
        assert_eq!(record["report"]["outcome"], "failed", "{status}: {record}");
        fleet.stop().await;
    }
}

#[tokio::test]
async fn a_stranger_is_not_told_where_a_request_failed() {
    for (faults, status) in failures() {
        let fleet = fleet_that_fails(faults, |config| config.trusted.clear()).await;
        let answer = ask(&fleet, &[], &chat("hello")).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        for header in TOLD {
            assert_eq!(answer.header(header), None, "{status}");
        }
        fleet.stop().await;
    }
}

#[tokio::test]
async fn overridden_weights_hold_for_one_request_only() {
    let fleet = fleet("kv", |_| {}).await;
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let answer = served(&fleet, &[("x-kvroute-override", "temperature=1000000")], &long(3)).await;
        seen.insert(answer.header("x-kvroute-worker").unwrap().to_owned());
        served(&fleet, &[], &long(3)).await;
    }
    assert!(seen.len() > 1, "at a high temperature any worker is as good as the one with the cache");
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_decisions_total", &[("reason", "sampled")]), 20);
    fleet.stop().await;
}

#[tokio::test]
async fn what_a_trusted_caller_misspells_is_refused_and_counted() {
    let fleet = fleet("kv", |_| {}).await;
    for (header, value, named) in [
        ("x-kvroute-override", "temprature=1", "did you mean temperature?"),
        ("x-kvroute-override", "temperature=hot", "temperature is \"hot\"; send a number from 0 to 1000000"),
        ("x-kvroute-overide", "temperature=1", "did you mean x-kvroute-override?"),
        ("x-kvroute-worker", "", "names no worker"),
        ("x-kvroute-priority", "1000", "send a whole number from -100 to 100"),
        ("x-kvroute-worker", &"w".repeat(600), "has 600 bytes; send at most 512"),
    ] {
        let answer = ask(&fleet, &[(header, value)], &chat("hello")).await;
        assert_refused(&answer, 400, "invalid_header", named);
        assert_eq!(answer.error()["param"], header);
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "rejected")]), 6);
    assert_eq!(requests(&fleet), [0, 0, 0]);
    fleet.stop().await;
}

#[tokio::test]
async fn a_stranger_steers_nothing_and_is_told_nothing_but_the_operator_is() {
    let log = CapturedLog::start();
    let fleet = fleet_of_strangers("round-robin").await;
    let pin = names(&fleet).remove(0);
    let forged = ("x-forwarded-for", "127.0.0.1");
    for headers in [
        [("x-kvroute-worker", pin.as_str()), forged],
        [("x-kvroute-worker", "nobody:1"), forged],
        [("x-kvroute-override", "nonsense"), forged],
    ] {
        let answer = served(&fleet, &headers, &chat("hello")).await;
        for header in TOLD {
            assert_eq!(answer.header(header), None, "{headers:?}");
        }
    }
    assert_eq!(requests(&fleet), [1, 1, 1], "it was their turn");
    let told = log.entries(|entry| entry.message.contains("server.trusted"));
    assert!(!told.is_empty() && told.iter().all(|entry| entry.field("header").starts_with("x-kvroute-")));
    fleet.stop().await;
}

#[tokio::test]
async fn anybody_may_name_a_session_and_its_requests_stay_together() {
    let fleet = fleet_of_strangers("sticky").await;
    for number in 0..6 {
        served(&fleet, &[("x-session-id", "alice")], &long(number)).await;
    }
    let mut served_by_each = requests(&fleet);
    served_by_each.sort_unstable();
    assert_eq!(served_by_each, [0, 0, 6]);
    fleet.stop().await;
}

#[tokio::test]
async fn a_session_of_other_programs_was_refused_for_its_length() {
    let fleet = fleet_of_strangers("sticky").await;
    let (long, other) = ("s".repeat(4000), format!("{}t", "s".repeat(3999)));
    for _ in 0..4 {
        served(&fleet, &[("x-session-id", &long)], &chat("hello")).await;
        served(&fleet, &[("x-session-id", &other), ("x-session-id", "more")], &chat("hello")).await;
    }
    let mut served_by_each = requests(&fleet);
    served_by_each.sort_unstable();
    assert_eq!(served_by_each, [0, 4, 4], "two sessions, each with a worker of its own");
    fleet.stop().await;
}

#[tokio::test]
async fn policy_direct_serves_the_named_and_refuses_the_rest() {
    let fleet = fleet("direct", |_| {}).await;
    let pin = names(&fleet).remove(2);
    served(&fleet, &[("x-kvroute-worker", &pin)], &chat("hello")).await;
    assert_refused(&ask(&fleet, &[], &chat("hello")).await, 400, "unservable", "x-kvroute-worker");
    assert_eq!(requests(&fleet), [0, 0, 1]);
    fleet.stop().await;
}
