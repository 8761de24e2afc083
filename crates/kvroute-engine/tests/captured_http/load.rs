//! Engines asked for their load over HTTP: what they tell, and what is said where they do not.

use std::time::Duration;

use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kvroute_core::DpRank;
use kvroute_engine::{EngineKind, EngineLoad, EngineLoads, LoadError, fetch_load};

use crate::captured_server::{CapturedServer, Exchange, captured, documented};

const PATIENCE: Duration = Duration::from_secs(10);

async fn fetch(server: &CapturedServer, engine: EngineKind) -> Result<EngineLoads, LoadError> {
    let client = Client::builder(TokioExecutor::new()).build(kvroute_engine::Connector::default());
    fetch_load(&client, &server.url, engine, PATIENCE).await
}

async fn fetched(exchanges: Vec<Exchange>, engine: EngineKind) -> Result<EngineLoads, LoadError> {
    fetch(&CapturedServer::start(exchanges).await, engine).await
}

/// What whoever reads the log is told.
fn told(engine: EngineKind, error: &LoadError) -> String {
    format!("{error}; {}", error.remedy(engine))
}

const FAMILIES: &str = "sglang:num_running_reqs{dp_rank=\"0\"} 4\nsglang:num_queue_reqs{dp_rank=\"0\"} 1\n";

#[tokio::test]
async fn captured_engines_tell_their_load() {
    let idle = EngineLoad { running: 0, waiting: 0, kv_usage: None };
    for (engine, folder, kv_usage) in
        [(EngineKind::Sglang, "sglang", Some(0.0)), (EngineKind::LlamaCpp, "llamacpp", None)]
    {
        let loads = fetched(captured(folder), engine).await.unwrap();
        assert_eq!(loads.of(DpRank::new(0), 1), Some(EngineLoad { kv_usage, ..idle }), "{engine}");
    }
}

#[tokio::test]
async fn an_older_sglang_is_asked_for_its_metrics() {
    let metrics = documented("GET /metrics", None, "200 OK", FAMILIES);
    let loads = fetched(vec![metrics], EngineKind::Sglang).await.unwrap();
    assert_eq!(loads.of(DpRank::new(0), 1), Some(EngineLoad { running: 4, waiting: 1, kv_usage: None }));
}

#[tokio::test]
async fn an_engine_whose_metrics_are_off_is_named_with_the_remedy() {
    let error = fetched(Vec::new(), EngineKind::LlamaCpp).await.unwrap_err();
    let message = told(EngineKind::LlamaCpp, &error);
    assert_eq!(message, "/metrics answers 404 Not Found; start llama-server with --metrics");

    let others = documented("GET /metrics", None, "200 OK", "process_cpu_seconds_total 1\n");
    let error = fetched(vec![others], EngineKind::Vllm).await.unwrap_err();
    let message = told(EngineKind::Vllm, &error);
    assert_eq!(
        message,
        "/metrics tells nothing of running and waiting requests; start vllm without --disable-log-stats"
    );
}

#[tokio::test]
async fn numbers_in_an_answer_of_another_status_are_no_load() {
    let failed = documented("GET /metrics", None, "503 Service Unavailable", FAMILIES);
    let error = fetched(vec![failed], EngineKind::Sglang).await.unwrap_err();
    assert!(error.to_string().contains("503"), "{error}");
}

#[tokio::test]
async fn an_engine_of_an_unknown_kind_is_not_asked() {
    let metrics = documented("GET /metrics", None, "200 OK", FAMILIES);
    let error = fetched(vec![metrics], EngineKind::OpenAi).await.unwrap_err();
    assert!(matches!(error, LoadError::Unsupported(EngineKind::OpenAi)), "{error}");
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let endless = "# nothing\n".repeat(500_000);
    let endless = documented("GET /metrics", None, "200 OK", &endless);
    let error = fetched(vec![endless], EngineKind::Vllm).await.unwrap_err();
    assert!(error.to_string().contains("/metrics: the answer is longer than 4 MiB"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_answer_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::builder(TokioExecutor::new()).build(kvroute_engine::Connector::default());
    let error = fetch_load(&client, &url, EngineKind::Vllm, PATIENCE).await.unwrap_err();
    assert!(error.to_string().contains("/metrics: no answer within 10 s"), "{error}");
    assert!(error.remedy(EngineKind::Vllm).contains("less often"));
}
