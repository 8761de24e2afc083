//! What engines say of themselves, and servers that are none.

use serde_json::json;

use crate::command::examine;
use crate::stub::Stub;

async fn found_at(stub: &Stub) -> (i32, Vec<(String, String)>) {
    let found = examine(&[&stub.url(), "--passive"]).await;
    let named = found.found(0).into_iter().map(|(severity, code)| (severity.to_owned(), code.to_owned()));
    (found.code, named.collect())
}

fn named(findings: &[(&str, &str)]) -> Vec<(String, String)> {
    findings.iter().map(|(severity, code)| ((*severity).to_owned(), (*code).to_owned())).collect()
}

#[tokio::test]
async fn nobody_at_the_address_is_unreachable() {
    let found = examine(&["http://127.0.0.1:1"]).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("error", "unreachable")]));
    assert_eq!(found.report["workers"][0]["url"], "http://127.0.0.1:1");
    assert!(found.report["workers"][0].get("engine").is_none(), "{}", found.report);
}

#[tokio::test]
async fn a_server_that_is_no_engine_is_told_apart_from_one_that_starts_or_wants_a_key() {
    for (status, expected) in [
        (200, ("error", "not_openai")),
        (404, ("error", "not_openai")),
        (401, ("error", "unauthorized")),
        (503, ("warning", "loading")),
    ] {
        let stub = Stub::start(vec![("GET /v1/models", status, "<html>".to_owned())]).await;
        assert_eq!(found_at(&stub).await, (1, named(&[expected])), "{status}");
    }
}

#[tokio::test]
async fn an_unknown_server_is_told_what_is_not_known_of_it() {
    let models = r#"{"data":[{"id":"m","owned_by":"somebody"}]}"#;
    let stub = Stub::start(vec![("GET /v1/models", 200, models.to_owned())]).await;
    let expected = [
        ("warning", "no_tokenizer"),
        ("hint", "reuse_unknown"),
        ("hint", "unknown_engine"),
        ("hint", "events_impossible"),
    ];
    assert_eq!(found_at(&stub).await, (1, named(&expected)));
}

#[tokio::test]
async fn an_sglang_without_its_flags_is_told_each_of_them() {
    let stub = Stub::sglang(&json!({
        "version": "0.5.23", "page_size": 1, "dp_size": 1, "enable_cache_report": false,
        "disable_radix_cache": true, "disaggregation_mode": "null", "kv_events": null,
    }))
    .await;
    let expected = [
        ("warning", "no_prefix_caching"),
        ("warning", "reuse_not_reported"),
        ("warning", "events_off"),
        ("hint", "page_size_1"),
        ("hint", "tokenizer_remote"),
    ];
    assert_eq!(found_at(&stub).await, (1, named(&expected)));
    let found = examine(&[&stub.url(), "--passive"]).await;
    for (code, flag) in [
        ("no_prefix_caching", "--disable-radix-cache"),
        ("reuse_not_reported", "--enable-cache-report"),
        ("events_off", "--kv-events-config"),
        ("page_size_1", "--page-size"),
    ] {
        assert!(found.told(code).contains(flag), "{}", found.told(code));
    }
}

#[tokio::test]
async fn two_sizes_of_blocks_and_two_numbers_of_ranks_are_named_with_who_tells_them() {
    let stub = Stub::sglang(&json!({
        "page_size": 16, "dp_size": 2, "enable_cache_report": true,
        "kv_events": {"publisher": "zmq", "endpoint_port_base": 1, "block_size": 8, "dp_size": 2},
    }))
    .await;
    let found = examine(&[&stub.url(), "--passive"]).await;
    let codes: Vec<_> = found.found(0).into_iter().map(|(_, code)| code).collect();
    assert!(codes.starts_with(&["contradicting_block_size", "contradicting_ranks"]), "{codes:?}");
    let told = found.told("contradicting_block_size");
    assert!(
        told.contains("the engine says 16 tokens, the announcement of its events says 8 tokens"),
        "{told}"
    );
    assert!(found.told("contradicting_ranks").contains("/v1/loads says 1"), "{}", found.report);
    let unreachable = codes.iter().filter(|code| **code == "events_unreachable").count();
    assert_eq!(unreachable, 2, "one a rank: {codes:?}");
}

#[tokio::test]
async fn an_address_that_cannot_be_used_is_named() {
    let models = r#"{"data":[{"id":"m","owned_by":"vllm"}]}"#;
    let sources = json!({"0": {"endpoint": "ipc:///tmp/events"}});
    let stub = Stub::start(vec![
        ("GET /v1/models", 200, models.to_owned()),
        ("GET /version", 200, r#"{"version":"0.32.0"}"#.to_owned()),
        ("GET /kv_event_sources", 200, sources.to_string()),
        ("POST /tokenize", 200, r#"{"tokens":[5]}"#.to_owned()),
    ])
    .await;
    let found = examine(&[&stub.url(), "--passive"]).await;
    let worst = [("warning", "unusable_answer"), ("warning", "events_off")];
    assert_eq!((found.code, &found.found(0)[..2]), (1, &worst[..]), "{}", found.report);
    assert!(found.told("unusable_answer").contains("ipc:///tmp/events"), "{}", found.report);
}

#[tokio::test]
async fn polled_events_are_left_alone_and_their_single_reader_is_named() {
    let models = r#"{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}"#;
    let stub = Stub::start(vec![
        ("GET /v1/models", 200, models.to_owned()),
        ("GET /kv_cache_events", 405, "{}".to_owned()),
        ("POST /_internal/tokenize", 200, r#"{"tokens":[5]}"#.to_owned()),
    ])
    .await;
    let expected = [
        ("hint", "reuse_unknown"),
        ("hint", "load_untold"),
        ("hint", "events_drained"),
        ("hint", "tokenizer_remote"),
    ];
    assert_eq!(found_at(&stub).await, (0, named(&expected)));
}

#[tokio::test]
async fn an_older_vllm_that_cannot_say_where_its_events_are_is_told_to_name_them() {
    let models = r#"{"data":[{"id":"m","owned_by":"vllm"}]}"#;
    let stub = Stub::start(vec![
        ("GET /v1/models", 200, models.to_owned()),
        ("GET /version", 200, r#"{"version":"0.20.0"}"#.to_owned()),
        ("POST /tokenize", 200, r#"{"tokens":[5]}"#.to_owned()),
    ])
    .await;
    let found = examine(&[&stub.url(), "--passive"]).await;
    let expected = vec![
        ("warning", "events_unannounced"),
        ("hint", "reuse_unknown"),
        ("hint", "load_untold"),
        ("hint", "tokenizer_remote"),
    ];
    assert_eq!((found.code, found.found(0)), (1, expected));
    assert!(found.told("events_unannounced").contains("name the address in kv_events"));
}
