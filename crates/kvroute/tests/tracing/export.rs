//! What a collector gets.

use std::collections::BTreeMap;

use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::engine;
use serde_json::json;

use super::collector::{Collector, ReceivedSpan};
use super::router::{CLIENT, Router, TRACE, sampled};
use super::worker::{MODEL, answering, breaking};

const SERVER: i32 = 2;
const CLIENT_KIND: i32 = 3;
const ERROR: i32 = 2;

fn says(span: &ReceivedSpan, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(span.attributes.get(*name).map(String::as_str), Some(*value), "{name} in {span:#?}");
    }
}

async fn request_and_attempt(collector: &Collector, trace: &str) -> (ReceivedSpan, ReceivedSpan) {
    let attempt = collector.spans_of(trace, "attempt", 1).await.remove(0);
    let request = collector.spans_of(trace, "request", 1).await.remove(0);
    assert_eq!(collector.spans().iter().filter(|span| span.trace == trace).count(), 2);
    (request, attempt)
}

#[tokio::test]
async fn a_request_is_a_span_and_each_dispatch_one_below_it() {
    let (collector, engine) = (Collector::start().await, engine(SimConfig::default()).await);
    let otlp = format!("tracing.otlp={}", collector.url());
    let router = Router::start(&engine.url(), &[&otlp]).await;
    let secret = "an unmistakable prompt that nobody else may read ".repeat(4);
    let answer = router.ask("sim", &secret, Some(&sampled())).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let (request, attempt) = request_and_attempt(&collector, TRACE).await;

    assert_eq!((request.parent.as_str(), request.kind, request.status), (CLIENT, SERVER, 0));
    says(
        &request,
        &[
            ("request_id", answer.header("x-request-id").unwrap()),
            ("endpoint", "/v1/completions"),
            ("model", "sim"),
            ("stream", "true"),
            ("status", "200"),
            ("outcome", "completed"),
            ("attempts", "1"),
        ],
    );
    assert_eq!((&attempt.parent, attempt.kind, attempt.status), (&request.id, CLIENT_KIND, 0));
    assert_ne!(attempt.id, request.id);
    let input = attempt.attributes["input_tokens"].parse::<u64>().unwrap();
    assert!(input > 16, "{attempt:?}");
    says(
        &attempt,
        &[
            ("phase", "aggregated"),
            ("worker", &engine.address().to_string()),
            ("dp_rank", "0"),
            ("policy", "kv"),
            ("best_eligible_cached_tokens", "0"),
            ("selected_cached_tokens", "0"),
            ("reused_tokens", "0"),
            ("report", "reported"),
            ("output_tokens", "3"),
            ("outcome", "completed"),
        ],
    );
    assert_eq!(attempt.events, ["first_token"]);
    assert_eq!(request.resource.get("service.name").map(String::as_str), Some("kvroute"));
    assert!(request.resource.contains_key("service.version"));
    for text in ["unmistakable", "sampled", "trace_id"] {
        assert!(!collector.has_seen(text), "{text:?} was exported");
    }
    assert!(router.stop().await.0.success());
    engine.stop().await;
}

#[tokio::test]
async fn a_worker_is_told_the_id_that_is_exported() {
    let (collector, worker) = (Collector::start().await, answering().await);
    let settings =
        [&format!("tracing.otlp={}", collector.url()), "pool.policy=round-robin", "pool.count=off"];
    let router = Router::start(&worker.url(), &settings).await;
    let body = json!({"model": MODEL, "prompt": "hello"});
    assert_eq!(router.ask_for(&body, None).await.status, 200);
    let told = worker.given("traceparent").remove(0).remove(0);
    let [trace, parent] = [&told[3..35], &told[36..52]];
    let (request, attempt) = request_and_attempt(&collector, trace).await;
    assert_eq!((attempt.id.as_str(), request.parent.as_str()), (parent, ""));
    assert!(!attempt.attributes.contains_key("input_tokens"), "{attempt:?}");
    let line = &router.until_lines_with("kvroute::access", 1).await[0];
    assert!(line.contains(trace), "{line}");
    router.stop().await;
}

#[tokio::test]
async fn each_dispatch_of_a_request_that_is_sent_again_is_a_step_of_its_own() {
    let (collector, breaking, worker) = (Collector::start().await, breaking().await, answering().await);
    let settings =
        [&format!("tracing.otlp={}", collector.url()), "pool.policy=round-robin", "pool.count=off"];
    let router = Router::start(&format!("{},{}", breaking.url(), worker.url()), &settings).await;
    let body = json!({"model": MODEL, "prompt": "hello"});
    while breaking.given("traceparent").is_empty() {
        assert_eq!(router.ask_for(&body, None).await.status, 200);
    }
    let first = breaking.given("traceparent").remove(0).remove(0);
    let second = worker.given("traceparent").pop().unwrap().remove(0);
    let (trace, ids) = (&first[3..35], [&first[36..52], &second[36..52]]);
    assert_eq!(&second[3..35], trace);
    assert_ne!(ids[0], ids[1]);
    let attempts = collector.spans_of(trace, "attempt", 2).await;
    let request = collector.spans_of(trace, "request", 1).await.remove(0);
    says(&request, &[("attempts", "2"), ("outcome", "completed"), ("status", "200")]);
    for (id, outcome) in ids.iter().zip(["failed", "completed"]) {
        let attempt = attempts.iter().find(|attempt| attempt.id == *id).unwrap();
        assert_eq!(attempt.parent, request.id);
        says(attempt, &[("outcome", outcome)]);
    }
    let lines = router.until_lines_with(&format!("trace_id={trace}"), 1).await;
    let told = |field: &str| lines[0].contains(&format!(" {field} "));
    assert!(
        told("attempts=2") && told("outcome=\"completed\"") && !lines[0].contains(" error="),
        "{lines:?}"
    );
    router.stop().await;
}

#[tokio::test]
async fn what_a_client_does_not_keep_is_not_exported() {
    let (collector, engine) = (Collector::start().await, engine(SimConfig::default()).await);
    let settings = [&format!("tracing.otlp={}", collector.url()), "tracing.sample=0"];
    let router = Router::start(&engine.url(), &settings).await;
    let dropped = sampled().replace(TRACE, &TRACE.replace('4', "5"));
    router.ask("sim", "one", Some(&format!("{}00", &dropped[..53]))).await;
    router.ask("sim", "two", None).await;
    router.ask("sim", "three", Some(&sampled())).await;
    request_and_attempt(&collector, TRACE).await;
    router.stop().await;
    assert_eq!(collector.spans().len(), 2, "{:#?}", collector.spans());
    engine.stop().await;
}

#[tokio::test]
async fn a_failure_is_marked_as_one() {
    let faults = Faults { break_after_chunks: Some(2), ..Faults::default() };
    let (collector, engine) =
        (Collector::start().await, engine(SimConfig { faults, ..SimConfig::default() }).await);
    let router = Router::start(&engine.url(), &[&format!("tracing.otlp={}", collector.url())]).await;
    router.ask("sim", "hello", Some(&sampled())).await;
    router.ask("gpt-9", "hello", Some(&sampled().replace(TRACE, &TRACE.replace('4', "5")))).await;
    let (request, attempt) = request_and_attempt(&collector, TRACE).await;
    assert_eq!((request.status, attempt.status), (ERROR, ERROR));
    says(&request, &[("outcome", "failed"), ("error", "upstream_broke_mid_stream")]);
    says(&attempt, &[("outcome", "failed"), ("report", "unfinished")]);
    assert!(!attempt.attributes.contains_key("reused_tokens"), "{attempt:?}");
    let refused = collector.spans_of(&TRACE.replace('4', "5"), "request", 1).await.remove(0);
    assert_eq!(refused.status, 0, "that a client asks for what there is not is no error of the router");
    says(
        &refused,
        &[("outcome", "rejected"), ("error", "model_not_found"), ("attempts", "0"), ("model", "gpt-9")],
    );
    router.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn the_standards_own_variables_are_read() {
    let (collector, engine) = (Collector::start().await, engine(SimConfig::default()).await);
    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT={}/", collector.url());
    let settings = [&endpoint, "OTEL_SERVICE_NAME=front", "OTEL_RESOURCE_ATTRIBUTES=team=serving"];
    let router = Router::start(&engine.url(), &settings).await;
    router.ask("sim", "hello", Some(&sampled())).await;
    let (request, _) = request_and_attempt(&collector, TRACE).await;
    let expected = [("service.name", "front"), ("team", "serving")];
    let expected: BTreeMap<_, _> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert!(expected.iter().all(|(name, value)| request.resource.get(name) == Some(value)), "{request:?}");
    router.stop().await;
    engine.stop().await;
}

#[tokio::test]
async fn what_has_not_been_sent_is_sent_at_the_end() {
    let (collector, engine) = (Collector::start().await, engine(SimConfig::default()).await);
    let router = Router::start(&engine.url(), &[&format!("tracing.otlp={}", collector.url())]).await;
    for _ in 0..20 {
        assert_eq!(router.ask("sim", "hello", None).await.status, 200);
    }
    let (status, log) = router.stop().await;
    assert!(status.success(), "{log}");
    assert_eq!(collector.spans().len(), 40);
    engine.stop().await;
}
