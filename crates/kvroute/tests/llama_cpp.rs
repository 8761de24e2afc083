//! A real llama.cpp server behind the router: what it reports as reused is what the router counts.
//!
//! The engine is unmodified and its tiny model was made for it (see `assets/README.md`). It counts the prompt tokens that
//! it computed and those that it found in its cache; the router must arrive at the same sums from the reports alone, and
//! must have counted each prompt's tokens as the engine did, or it would call the report mismatched.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "test code")]

#[path = "llama_cpp/fleet.rs"]
mod fleet;
#[path = "llama_cpp/process.rs"]
mod process;

use kvroute_testkit::Exposition;
use serde_json::{Value, json};

use fleet::Fleet;

const QUESTION: &str = "Explain in one paragraph why the sky is blue, then tell me why the sea is blue.";
const ANSWER_TOKENS: u64 = 12;

#[tokio::test]
async fn reuse_that_the_engine_reports_is_counted() {
    let Some(fleet) = Fleet::start().await else { return };

    let cold = check_whole(&fleet.chat(&chat(QUESTION, &json!({}))).await);
    let warm = check_whole(&fleet.chat(&chat(QUESTION, &json!({}))).await);
    assert_eq!(cold, Usage { prompt: warm.prompt, cached: 0 }, "the engine's cache was empty");
    assert_eq!(warm.cached, warm.prompt - 1, "llama.cpp reuses an equal prompt but for its last token");

    let silent = check_stream(&fleet.chat(&chat(QUESTION, &json!({"stream": true}))).await);
    assert_eq!(silent, None, "a client that did not ask for usage got it");
    let asked = json!({"stream": true, "stream_options": {"include_usage": true}});
    let longer = check_stream(&fleet.chat(&chat(&format!("{QUESTION} And 3 × 4 = ? 🙂"), &asked)).await);
    let longer = longer.expect("a client that asked for usage did not get it");
    assert!(longer.cached > 0 && longer.cached < warm.prompt, "the shared part of the prompt was not reused");

    // The silent stream is not among them; the engine counted it all the same.
    check_sums(&fleet, 4, cold.prompt + 2 * warm.prompt + longer.prompt).await;
}

/// The other endpoints have no template here, so their prompts are not counted; what the engine says of them is.
#[tokio::test]
async fn reuse_that_responses_and_messages_report_is_counted() {
    let Some(fleet) = Fleet::start().await else { return };
    let system = "You are a helpful assistant. Use simple words.";
    let response = json!({"instructions": system, "input": QUESTION, "max_output_tokens": ANSWER_TOKENS});
    let messages = json!([{"role": "user", "content": QUESTION}]);
    let message = json!({"system": system, "messages": messages, "max_tokens": ANSWER_TOKENS});
    let mut asked = 0;
    for (path, body, last) in
        [("/v1/responses", response, "response.completed"), ("/v1/messages", message, "message_stop")]
    {
        for more in [json!({}), json!({"stream": true}), json!({"stream": true, "return_progress": true})] {
            let mut body = body.clone();
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answer = fleet.ask(path, &body).await;
            let is_stream = more != json!({});
            let ends = answer.contains(&format!("event: {last}\n"));
            assert_eq!(ends, is_stream, "{path} {more}: {answer}");
            asked += 1;
        }
    }
    check_unchecked(&fleet, asked).await;
}

/// The router's sums of prompts that it did not count against the engine's own counters.
async fn check_unchecked(fleet: &Fleet, requests: u64) {
    let closed = |metrics: &Exposition| metrics.count("kvroute_attempts_total", &[]);
    let router = fleet.router_metrics_when(|metrics| closed(metrics) == requests).await;
    let engine = fleet.engine_metrics().await;
    let reused = engine.count("llamacpp:prompt_tokens_cached_total", &[]);
    let computed = engine.count("llamacpp:prompt_tokens_total", &[]);
    assert!(reused > computed, "{reused} reused, {computed} computed: the prompts were equal");
    let unchecked = router.count("kvroute_router_reuse_reports_total", &[("outcome", "unchecked")]);
    assert_eq!((unchecked, router.count("kvroute_router_reuse_reports_total", &[])), (requests, requests));
    assert_eq!(router.count("dynamo_component_router_kv_worker_reused_tokens_total", &[]), reused);
    assert_eq!(router.count("kvroute_router_reuse_reported_input_tokens_total", &[]), computed + reused);
    assert_eq!(router.count("kvroute_uncounted_attempts_total", &[("reason", "template")]), requests);
    assert_eq!(router.count("kvroute_attempts_total", &[("outcome", "completed")]), requests);
}

/// The router's sums against the engine's own counters.
async fn check_sums(fleet: &Fleet, requests: u64, prompt: u64) {
    let reported = |metrics: &Exposition| {
        metrics.count("kvroute_router_reuse_reports_total", &[("outcome", "reported")])
    };
    let router = fleet.router_metrics_when(|metrics| reported(metrics) == requests).await;
    let router = |family: &str| router.count(family, &[]);
    let engine = fleet.engine_metrics().await;
    let reused = engine.count("llamacpp:prompt_tokens_cached_total", &[]);
    let computed = engine.count("llamacpp:prompt_tokens_total", &[]);

    assert!(reused > 0);
    assert_eq!(computed + reused, prompt, "the engine's counters and its answers disagree");
    assert_eq!(router("dynamo_component_router_kv_worker_reused_tokens_total"), reused);
    assert_eq!(router("dynamo_component_router_input_sequence_tokens_sum"), prompt);
    assert_eq!(router("dynamo_component_router_input_sequence_tokens_count"), requests);
    assert_eq!(router("kvroute_router_reuse_reported_input_tokens_total"), prompt);
    assert_eq!(router("kvroute_router_reuse_reports_total"), requests, "an outcome other than `reported`");
    assert_eq!(router("dynamo_frontend_worker_active_prefill_tokens"), 0);
    assert_eq!(router("dynamo_frontend_worker_active_decode_blocks"), 0);
}

fn chat(question: &str, more: &Value) -> Value {
    let mut body = json!({
        "model": fleet::MODEL,
        "messages": [
            {"role": "system", "content": "You are a helpful assistant. Use simple words."},
            {"role": "user", "content": question},
        ],
        "max_tokens": ANSWER_TOKENS,
    });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// What the engine said of one request.
#[derive(Debug, PartialEq)]
struct Usage {
    prompt: u64,
    cached: u64,
}

impl Usage {
    fn read(usage: &Value) -> Self {
        assert_eq!(usage["completion_tokens"], ANSWER_TOKENS, "{usage}");
        let cached = &usage["prompt_tokens_details"]["cached_tokens"];
        Self { prompt: usage["prompt_tokens"].as_u64().unwrap(), cached: cached.as_u64().unwrap() }
    }
}

fn check_whole(body: &str) -> Usage {
    let body: Value = serde_json::from_str(body).unwrap();
    let text = body["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(!text.trim().is_empty(), "{body}");
    Usage::read(&body["usage"])
}

/// The stream carries text and ends as it should. Returns the usage that the client saw.
fn check_stream(body: &str) -> Option<Usage> {
    let mut events: Vec<&str> = body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(events.pop(), Some("[DONE]"), "{body}");
    let chunks: Vec<Value> = events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();

    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert!(!text.trim().is_empty(), "{body}");
    let finished = chunks.iter().filter(|chunk| chunk["choices"][0]["finish_reason"] == "length");
    assert_eq!(finished.count(), 1, "{body}");
    chunks.iter().map(|chunk| &chunk["usage"]).find(|usage| usage.is_object()).map(Usage::read)
}
