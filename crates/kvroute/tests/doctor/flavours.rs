//! The engines beside vLLM, simulated: each lacks only what it lacks by its nature.

use kvroute_core::WorkerRole;
use kvroute_sim::{Flavour, SimConfig};
use kvroute_testkit::engine;

use crate::command::{Examination, examine};
use crate::folders::demo;

async fn examined(flavour: Flavour, role: WorkerRole) -> Examination {
    let config = SimConfig { flavour, role, prefill_tps: 0, decode_tps: 0, ..SimConfig::default() };
    let engine = engine(config).await;
    examine(&[&engine.url(), "--tokenizer", &demo()]).await
}

#[tokio::test]
async fn sglang_is_proved_well() {
    let found = examined(Flavour::Sglang, WorkerRole::Aggregated).await;
    assert_eq!((found.code, found.found(0)), (0, vec![]), "{}", found.report);
    let worker = &found.report["workers"][0];
    assert_eq!((&worker["engine"], &worker["role"]), (&"sglang".into(), &"aggregated".into()));
    assert_eq!(
        (&worker["conformance"]["verdict"], &worker["parity"]["equal"]),
        (&"proved".into(), &14.into())
    );
}

#[tokio::test]
async fn a_prefill_worker_of_sglang_is_sent_nothing() {
    let found = examined(Flavour::Sglang, WorkerRole::Prefill).await;
    assert_eq!((found.code, found.found(0)), (0, vec![]), "{}", found.report);
    let worker = &found.report["workers"][0];
    assert_eq!(
        (&worker["role"], &worker["conformance"]["verdict"]),
        (&"prefill".into(), &"not_tried".into())
    );
}

#[tokio::test]
async fn the_events_of_tensorrt_llm_are_not_taken() {
    let found = examined(Flavour::TrtLlm, WorkerRole::Aggregated).await;
    assert_eq!((found.code, found.found(0)), (0, vec![("hint", "events_drained")]), "{}", found.report);
    let worker = &found.report["workers"][0];
    assert_eq!((&worker["engine"], &worker["parity"]["compared"]), (&"tensorrt-llm".into(), &4.into()));
    assert_eq!(worker["conformance"]["verdict"], "reports_only");
}

#[tokio::test]
async fn llama_cpp_has_no_events_to_be_missed() {
    let found = examined(Flavour::LlamaCpp, WorkerRole::Aggregated).await;
    assert_eq!((found.code, found.found(0)), (0, vec![("hint", "events_impossible")]), "{}", found.report);
    let reused = &found.report["workers"][0]["conformance"]["reused_tokens"];
    assert!(reused.as_u64().unwrap() > 0, "{}", found.report);
}
