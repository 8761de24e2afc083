//! Workers of a configuration, and workers beside each other.

use std::io::Write;

use kvroute_sim::SimConfig;
use kvroute_testkit::engine;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::command::examine;
use crate::folders::demo;
use crate::stub::Stub;

fn config() -> SimConfig {
    SimConfig { prefill_tps: 0, decode_tps: 0, ..SimConfig::default() }
}

fn written(pool: &str) -> NamedTempFile {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    write!(file, "[[pool]]\n{pool}").unwrap();
    file
}

#[tokio::test]
async fn a_configuration_names_workers_model_and_tokenizer() {
    let engine = engine(config()).await;
    let (url, tokenizer) = (engine.url(), demo());
    let file =
        written(&format!("model = \"sim\"\ntokenizer = \"{tokenizer}\"\n[[pool.worker]]\nurl = \"{url}\"\n"));
    let found = examine(&["--config", file.path().to_str().unwrap()]).await;
    assert_eq!((found.code, found.found(0)), (0, vec![]), "{}", found.report);
    assert_eq!(found.report["workers"][0]["parity"]["equal"], 14);
}

#[tokio::test]
async fn a_model_that_is_not_served_and_a_block_size_that_is_not_the_engines_are_named() {
    let engine = engine(config()).await;
    let url = engine.url();
    let file = written(&format!("model = \"other\"\nblock_size = 32\n[[pool.worker]]\nurl = \"{url}\"\n"));
    let found = examine(&["--config", file.path().to_str().unwrap(), "--passive"]).await;
    let expected =
        vec![("error", "model_missing"), ("error", "contradicting_block_size"), ("hint", "reuse_unknown")];
    assert_eq!(found.found(0)[..3], expected, "{}", found.report);
    assert_eq!(found.code, 1);
    let told = found.told("contradicting_block_size");
    assert!(told.contains("the configuration says 32 tokens, the engine says 16 tokens"), "{told}");
}

#[tokio::test]
async fn a_role_that_the_engine_was_not_started_for_is_named() {
    let info = json!({"page_size": 16, "enable_cache_report": true, "disaggregation_mode": "decode"});
    let stub = Stub::sglang(&info).await;
    let url = stub.url();
    let file = written(&format!("model = \"m\"\n[[pool.worker]]\nurl = \"{url}\"\nkv_events = \"none\"\n"));
    let found = examine(&["--config", file.path().to_str().unwrap()]).await;
    assert_eq!(found.found(0), [("error", "contradicting_role"), ("hint", "tokenizer_remote")]);
    assert_eq!(found.report["workers"][0]["conformance"]["verdict"], "not_tried");
    assert!(found.told("contradicting_role").contains("aggregated, the engine says decode"));
}

#[tokio::test]
async fn one_name_for_two_contexts_is_found_between_workers() {
    let long = engine(SimConfig { max_model_len: Some(4096), ..config() }).await;
    let short = engine(SimConfig { max_model_len: Some(2048), ..config() }).await;
    let found = examine(&[&long.url(), &short.url(), "--tokenizer", &demo()]).await;
    assert_eq!((found.found(0), found.found(1)), (vec![], vec![]), "{}", found.report);
    assert_eq!((found.code, found.found_between()), (1, vec![("warning", "contradicting_context_length")]));
    let message = found.report["findings"][0]["message"].as_str().unwrap();
    assert!(message.contains(&long.url()) && message.contains("2048 tokens"), "{message}");
}
