//! Bad input and bad workers: each has its exact error, the load goes back to 0, other requests are unharmed.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use kvroute_core::{BlockSize, ModelName};
use kvroute_router::config::{CountMode, OnMismatch, TokenizerSource};
use kvroute_server::{ServeConfig, Server};
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Answer, Client, Fleet, demo_tokenizer_folder, engine, kept_address, server_config};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn chat(text: &str) -> Value {
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 4})
}

fn streamed(text: &str) -> Value {
    let mut body = chat(text);
    body["stream"] = json!(true);
    body
}

fn engine_with(faults: Faults) -> SimConfig {
    SimConfig { faults, ..SimConfig::default() }
}

fn short_timeouts(urls: &[String]) -> ServeConfig {
    let mut config = server_config(urls, "round-robin");
    let timeouts = &mut config.router.pools[0].timeouts;
    timeouts.first_byte = Duration::from_millis(300);
    timeouts.idle = Duration::from_millis(300);
    config
}

/// What must hold after any failure: nothing is booked, and the next request is served.
async fn is_unharmed(fleet: &Fleet) {
    let scrape = fleet.at_rest().await;
    for gauge in
        ["dynamo_frontend_worker_active_decode_blocks", "dynamo_frontend_worker_active_prefill_tokens"]
    {
        assert_eq!(scrape.sum(gauge, &[]), Some(0.0), "{gauge}");
    }
    assert_eq!(scrape.sum("dynamo_frontend_stage_requests", &[]), Some(0.0));
}

async fn serves_the_next(fleet: &Fleet) {
    let answer = fleet.client.post(&fleet.data(CHAT), &chat("and now?")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn assert_error(answer: &Answer, status: u16, kind: &str, param: &Value, code: &Value, message: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(answer.headers.contains_key("x-request-id"), "no request id");
    let error = answer.error();
    assert_eq!((&error["type"], &error["param"], &error["code"]), (&json!(kind), param, code), "{error}");
    let text = error["message"].as_str().unwrap();
    assert!(text.contains(message), "{text:?} does not contain {message:?}");
}

#[tokio::test]
async fn requests_that_cannot_be_served_are_refused_by_name() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let url = fleet.data(CHAT);
    let invalid = "invalid_request_error";

    let answer = fleet.client.post_bytes(&url, r#"{"model": "sim", "messages": ["#).await;
    assert_error(&answer, 400, invalid, &Value::Null, &json!("invalid_json"), "");
    let answer = fleet.client.post(&url, &json!({"model": "sim", "messages": "hello"})).await;
    assert_error(&answer, 400, invalid, &json!("messages"), &Value::Null, "messages");
    let answer = fleet.client.post(&url, &json!({"model": "sim"})).await;
    assert_error(&answer, 400, invalid, &json!("messages"), &Value::Null, "messages");
    let mut wrong_type = chat("hello");
    wrong_type["stream"] = json!("yes");
    let answer = fleet.client.post(&url, &wrong_type).await;
    assert_error(&answer, 400, invalid, &json!("stream"), &Value::Null, "stream");
    let answer = fleet
        .client
        .post(&url, &json!({"model": "gpt-9", "messages": [{"role": "user", "content": "x"}]}))
        .await;
    assert_error(
        &answer,
        404,
        invalid,
        &json!("model"),
        &json!("model_not_found"),
        r#"model "gpt-9" is not served here; served models: sim"#,
    );
    let completions = fleet.data("/v1/completions");
    let answer = fleet.client.post(&completions, &json!({"model": "sim", "prompt": [1, 4_000_000]})).await;
    assert_error(&answer, 400, invalid, &json!("prompt"), &Value::Null, "token id 4000000 is out of range");
    let answer = fleet.client.post(&url, &chat(&"long ".repeat(300_000))).await;
    assert_error(&answer, 413, invalid, &Value::Null, &json!("body_too_large"), "1048576 bytes");
    let answer = fleet.client.get(&url).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (405, &json!("method_not_allowed")));
    let answer = fleet.client.post(&fleet.data("/v2/chat"), &chat("x")).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (404, &json!("path_not_found")));

    serves_the_next(&fleet).await;
    is_unharmed(&fleet).await;
    let scrape = fleet.scrape().await;
    let rejected =
        |model: &str| scrape.count("kvroute_requests_total", &[("model", model), ("outcome", "rejected")]);
    assert_eq!((rejected("unknown"), rejected("sim")), (8, 1));
    assert_eq!(scrape.count("kvroute_requests_total", &[("model", "sim"), ("outcome", "completed")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_down_at_the_start_does_not_hold_up_the_others() {
    let down = kept_address();
    let with_one_down = |urls: &[String]| {
        let urls = [urls, &[format!("http://{down}")]].concat();
        server_config(&urls, "round-robin")
    };
    let fleet = Fleet::start_with(vec![SimConfig::default()], with_one_down).await;
    for _ in 0..4 {
        serves_the_next(&fleet).await;
    }
    let workers = fleet.client.get(&fleet.admin("/api/workers")).await.json();
    let worker = workers.as_array().unwrap().iter().find(|worker| worker["id"] == down.to_string()).unwrap();
    assert_eq!(worker["state"], "starting");
    assert!(worker["problem"].as_str().unwrap().contains("refused"), "{worker}");
    is_unharmed(&fleet).await;
    fleet.stop().await;
}

#[tokio::test]
async fn without_any_worker_the_answer_names_what_is_wrong_with_each() {
    let down = kept_address();
    let impatient = |_: &[String]| {
        let mut config = server_config(&[format!("http://{down}")], "kv");
        config.router.pools[0].queue.timeout = Duration::from_millis(200);
        config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
        config
    };
    let fleet = Fleet::start_with(Vec::new(), impatient).await;
    let workers = fleet.admin("/api/workers");
    fleet.client.until(&workers, |answer| answer.text().contains("refused")).await;
    let answer = fleet.client.post(&fleet.data(CHAT), &chat("hello")).await;
    let message = format!("{down} is starting: ");
    assert_error(&answer, 503, "service_unavailable_error", &Value::Null, &json!("not_ready"), &message);
    assert_eq!(fleet.client.get(&fleet.data("/ready")).await.status, 503);
    assert_eq!(fleet.client.get(&fleet.data("/live")).await.status, 200);
    fleet.stop().await;
}

#[tokio::test]
async fn an_engines_own_refusal_passes_as_it_is() {
    let faults = Faults { refuse_status: Some(429), ..Faults::default() };
    let fleet = Fleet::start(vec![engine_with(faults)], "kv").await;
    let direct = fleet.client.post(&format!("{}{CHAT}", fleet.engines[0].url()), &chat("hello")).await;
    let routed = fleet.client.post(&fleet.data(CHAT), &chat("hello")).await;
    assert_eq!((routed.status.as_u16(), &routed.body), (429, &direct.body));
    is_unharmed(&fleet).await;
    fleet.stop().await;
}

#[tokio::test]
async fn a_worker_that_dies_becomes_a_502_and_is_not_asked_again() {
    let mut fleet = Fleet::start(vec![SimConfig::default(), SimConfig::default()], "round-robin").await;
    let dead = fleet.engines.remove(0);
    dead.stop().await;
    let mut failures = 0;
    for _ in 0..6 {
        let answer = fleet.client.post(&fleet.data(CHAT), &chat("hello")).await;
        if answer.status != 200 {
            let message = "a worker broke before its first byte";
            assert_error(&answer, 502, "upstream_error", &Value::Null, &json!("upstream_broke"), message);
            failures += 1;
        }
    }
    assert!(failures <= 1, "{failures} of 6 requests went to the dead worker");
    let workers = fleet.admin("/api/workers");
    fleet.client.until(&workers, |answer| answer.text().contains("unhealthy")).await;
    is_unharmed(&fleet).await;
    fleet.stop().await;
}

#[tokio::test]
async fn a_worker_that_hangs_becomes_a_504() {
    let faults = Faults { hang: true, ..Faults::default() };
    let fleet = Fleet::start_with(vec![engine_with(faults)], short_timeouts).await;
    let answer = fleet.client.post(&fleet.data(CHAT), &chat("hello")).await;
    let message = "exceeded timeouts.first_byte of 300ms";
    assert_error(&answer, 504, "timeout_error", &Value::Null, &json!("upstream_timeout"), message);
    is_unharmed(&fleet).await;
    fleet.stop().await;
}

#[tokio::test]
async fn a_whole_answer_that_breaks_is_a_502_and_never_half_an_object() {
    let faults = Faults { break_after_chunks: Some(1), ..Faults::default() };
    let fleet = Fleet::start(vec![engine_with(faults)], "kv").await;
    let answer = fleet.client.post(&fleet.data(CHAT), &chat("hello")).await;
    assert_error(
        &answer,
        502,
        "upstream_error",
        &Value::Null,
        &json!("upstream_broke"),
        "broke before its first byte",
    );
    is_unharmed(&fleet).await;
    let scrape = fleet.scrape().await;
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "unfinished")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_event() {
    let faults = Faults { break_after_chunks: Some(2), ..Faults::default() };
    let fleet = Fleet::start(vec![engine_with(faults)], "kv").await;
    let answer = fleet.client.post(&fleet.data(CHAT), &streamed("hello")).await;
    assert_eq!(answer.status, 200);
    let text = answer.text();
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    let event: Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(event["error"]["code"], "upstream_broke_mid_stream", "{text}");
    assert!(!text.contains("[DONE]"), "{text}");
    is_unharmed(&fleet).await;
    let scrape = fleet.scrape().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("model", "sim"), ("outcome", "failed")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn garbage_in_a_stream_passes_and_costs_nothing_else() {
    let faults = Faults { garbage_after_chunks: Some(1), ..Faults::default() };
    let fleet = Fleet::start(vec![engine_with(faults)], "kv").await;
    let answer = fleet.client.post(&fleet.data(CHAT), &streamed("hello")).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    is_unharmed(&fleet).await;
    let scrape = fleet.scrape().await;
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "reported")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn reports_that_are_broken_or_missing_are_counted_as_such_and_never_as_zero() {
    let cases = [
        (Faults { null_cached_tokens: true, ..Faults::default() }, "invalid"),
        (Faults { no_report: true, ..Faults::default() }, "missing"),
        (Faults { prompt_tokens_offset: 1, ..Faults::default() }, "mismatched"),
        (Faults { truncated_usage: true, ..Faults::default() }, "missing"),
    ];
    for (faults, outcome) in cases {
        let fleet = Fleet::start(vec![engine_with(faults.clone())], "kv").await;
        let answer = fleet.client.post(&fleet.data(CHAT), &streamed("hello")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        is_unharmed(&fleet).await;
        let scrape = fleet.scrape().await;
        let reports = |outcome| scrape.count("kvroute_router_reuse_reports_total", &[("outcome", outcome)]);
        assert_eq!((reports(outcome), reports("reported")), (1, 0), "{faults:?}");
        assert_eq!(scrape.count("kvroute_router_reuse_reported_input_tokens_total", &[]), 0, "{faults:?}");
        assert!(scrape.count("kvroute_router_reuse_expected_input_tokens_total", &[]) > 0, "{faults:?}");
        fleet.stop().await;
    }
}

#[tokio::test]
async fn a_tokenizer_without_a_template_is_visible_and_no_outage() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = demo_tokenizer_folder().join("tokenizer.json");
    std::fs::copy(tokenizer, folder.path().join("tokenizer.json")).unwrap();
    let without_template = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        config.router.pools[0].tokenizer = TokenizerSource::Path(folder.path().to_owned());
        // Otherwise the engine, which has one, would count its chats.
        config.router.pools[0].on_mismatch = OnMismatch::Load;
        config
    };
    let fleet = Fleet::start_with(vec![SimConfig::default()], without_template).await;
    serves_the_next(&fleet).await;
    let text = json!({"model": "sim", "prompt": "plain text needs no template", "max_tokens": 2});
    assert_eq!(fleet.client.post(&fleet.data("/v1/completions"), &text).await.status, 200);
    is_unharmed(&fleet).await;
    let scrape = fleet.scrape().await;
    assert_eq!(scrape.count("kvroute_uncounted_attempts_total", &[("reason", "template")]), 1);
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "unchecked")]), 1);
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "reported")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn settings_that_contradict_each_other_or_the_engine_are_named() {
    let start = |change: fn(&mut ServeConfig)| async move {
        let mut config = server_config(&["http://127.0.0.1:1".to_owned()], "kv");
        change(&mut config);
        Server::start(config).await.unwrap_err().to_string()
    };
    let uncounted = start(|config| config.router.pools[0].count = CountMode::Off).await;
    assert!(
        uncounted.contains("pool.count is \"off\"") && uncounted.contains("policy \"kv\""),
        "{uncounted}"
    );
    let unknown = start(|config| config.router.pools[0].policy = "round-robbin".to_owned()).await;
    assert!(unknown.contains("did you mean `round-robin`"), "{unknown}");
    let twins = start(|config| {
        let twin = config.router.pools[0].workers[0].clone();
        config.router.pools[0].workers.push(twin);
    });
    assert!(twins.await.contains("worker 127.0.0.1:1 is configured twice"));
    let one_model = start(|config| {
        let mut other = server_config(&["http://127.0.0.1:2".to_owned()], "random").router.pools.remove(0);
        other.model = Some(ModelName::new("m"));
        config.router.pools[0].model = Some(ModelName::new("m"));
        config.router.pools.push(other);
    });
    assert!(one_model.await.contains("model m is served by two pools"));

    let engine = engine(SimConfig::default()).await;
    let mut config = server_config(&[engine.url()], "kv");
    config.router.pools[0].block_size = Some(BlockSize::new(32).unwrap());
    let server = Server::start(config).await.unwrap();
    let workers = format!("http://{}/api/workers", server.admin_address());
    let named = |answer: &Answer| {
        answer.text().contains("pool.block_size is 32, but the engine's blocks have 16 tokens")
    };
    Client::default().until(&workers, named).await;
    server.stop().await;
    engine.stop().await;
}
