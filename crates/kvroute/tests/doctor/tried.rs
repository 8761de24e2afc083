//! What the same prompt, sent twice, proves and what it finds missing.

use kvroute_sim::{EventEndpoint, Faults, SimConfig};
use kvroute_testkit::engine;

use crate::command::{doctor, examine};
use crate::folders::demo;

fn config() -> SimConfig {
    SimConfig { prefill_tps: 0, decode_tps: 0, ..SimConfig::default() }
}

fn with_faults(faults: Faults) -> SimConfig {
    SimConfig { faults, ..config() }
}

#[tokio::test]
async fn a_worker_that_lacks_nothing_is_proved_well() {
    let engine = engine(config()).await;
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0), found.found_between()), (0, vec![], vec![]), "{}", found.report);

    let worker = &found.report["workers"][0];
    assert_eq!((&worker["engine"], &worker["block_size"]), (&"vllm".into(), &16.into()));
    assert_eq!(worker["conformance"]["verdict"], "proved");
    let [prompt, reused] =
        ["prompt_tokens", "reused_tokens"].map(|key| worker["conformance"][key].as_u64().unwrap());
    assert_eq!(reused, (prompt - 1) / 16 * 16, "{worker}");
    assert!(worker["event_streams"][0]["stored_blocks"].as_u64().unwrap() > 0, "{worker}");
    assert_eq!(worker["event_streams"][0]["replay_answers"], true);
    assert_eq!(worker["parity"]["equal"], worker["parity"]["compared"]);
    assert_eq!(worker["parity"]["compared"], 14);
}

#[tokio::test]
async fn the_second_examination_proves_the_same() {
    let engine = engine(config()).await;
    for _ in 0..2 {
        let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
        assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "proved", "{}", found.report);
    }
}

#[tokio::test]
async fn people_read_the_same_without_colours_in_a_pipe() {
    let engine = engine(config()).await;
    let output = doctor(&[&engine.url(), "--tokenizer", &demo()]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        &engine.url(),
        "vllm 0.32.0, model sim",
        "blocks of 16 tokens",
        "replay answers",
        "14 of 14 prompts",
        "all well",
    ] {
        assert!(text.contains(part), "no {part:?} in:\n{text}");
    }
    assert!(text.ends_with("1 worker: 0 errors, 0 warnings, 0 hints\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn an_engine_without_the_flag_for_events_is_told_the_flag() {
    let engine = engine(SimConfig { kv_events: EventEndpoint::None, ..config() }).await;
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("warning", "events_off")]));
    assert!(found.told("events_off").contains("--kv-events-config"), "{}", found.told("events_off"));
    assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "reports_only");
}

#[tokio::test]
async fn an_engine_without_the_flag_for_reports_is_told_the_flag() {
    let engine = engine(with_faults(Faults { no_report: true, ..Faults::default() })).await;
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("warning", "reuse_not_reported")]));
    assert!(found.told("reuse_not_reported").contains("--enable-prompt-tokens-details"));
    assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "events_only");
}

#[tokio::test]
async fn an_event_socket_that_stays_silent_is_not_well() {
    let engine = engine(with_faults(Faults { silent: true, ..Faults::default() })).await;
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("error", "events_silent")]));
    assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "reports_only");
}

#[tokio::test]
async fn a_replay_socket_that_is_absent_or_mute_is_named() {
    let absent = engine(SimConfig { kv_replay: EventEndpoint::None, ..config() }).await;
    let found = examine(&[&absent.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (0, vec![("hint", "replay_missing")]));
    let mute = engine(with_faults(Faults { no_replay: true, ..Faults::default() })).await;
    let found = examine(&[&mute.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("warning", "replay_unreachable")]));
}

#[tokio::test]
async fn an_engine_that_refuses_every_request_is_told_so_in_its_own_words() {
    let engine = engine(with_faults(Faults { refuse_status: Some(500), ..Faults::default() })).await;
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (1, vec![("error", "request_refused")]));
    assert!(found.told("request_refused").contains("500"), "{}", found.told("request_refused"));
    assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "failed");
}

#[tokio::test]
async fn a_passive_examination_sends_no_completion() {
    let engine = engine(config()).await;
    let found = examine(&[&engine.url(), "--passive", "--tokenizer", &demo()]).await;
    assert_eq!((found.code, found.found(0)), (0, vec![("hint", "reuse_unknown")]));
    assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "not_tried");
    assert_eq!(engine.stats().requests, 0);
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.found(0), engine.stats().requests), (vec![], 2));
}

#[tokio::test]
async fn a_prompt_that_fits_no_block_is_no_missing_cache() {
    let block_size = kvroute_core::BlockSize::new(512).unwrap();
    let engine = engine(SimConfig { block_size, max_model_len: Some(600), ..config() }).await;
    let found = examine(&[&engine.url(), "--tokenizer", &demo()]).await;
    assert_eq!(
        (found.code, found.found(0)),
        (0, vec![("hint", "large_blocks"), ("hint", "prompt_under_block")])
    );
}

#[tokio::test]
async fn what_needs_no_tokenizer_is_proved_without_one() {
    let engine = engine(config()).await;
    let found = examine(&[&engine.url()]).await;
    assert_eq!((found.code, found.found(0)), (0, vec![("hint", "tokenizer_remote")]));
    assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "proved");
}
