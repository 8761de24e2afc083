//! What a probe finds, from the answers that real engines gave.

use crate::captured_server::{CapturedServer, Exchange, captured, documented};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kvroute_core::{BlockSize, Blocks, DpRank, Tokens, WorkerRole};
use kvroute_engine::events::EventAddress;
use kvroute_engine::{AnnouncedEvents, EngineKind, HttpClient, Probe, ProbeError, probe};
use serde_json::json;
use tokio::net::TcpListener;

fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build(kvroute_engine::Connector::default())
}

async fn probed(exchanges: Vec<Exchange>) -> Probe {
    let server = CapturedServer::start(exchanges).await;
    probe(&client(), &server.url).await.unwrap()
}

fn events(rank: u32, port: u16) -> AnnouncedEvents {
    AnnouncedEvents {
        dp_rank: DpRank::new(rank),
        events: EventAddress::Connect(format!("tcp://127.0.0.1:{port}").parse().unwrap()),
        replay: Some(format!("tcp://127.0.0.1:{}", port + 1000).parse().unwrap()),
        topic: "kv-events".to_owned(),
    }
}

fn vllm_metrics() -> String {
    let path = format!("{}/../../fixtures/vllm/metrics_excerpt.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn vllm() {
    let mut exchanges = captured("vllm");
    exchanges.push(documented("GET /metrics", None, "200 OK", &vllm_metrics()));
    let sources = json!([
        {"data_parallel_rank": 0, "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:6557", "topic": "kv-events"},
        {"data_parallel_rank": 1, "endpoint": "tcp://10.0.0.1:5558", "replay_endpoint": null, "topic": ""},
        {"data_parallel_rank": 2, "endpoint": "ipc:///tmp/events", "replay_endpoint": null, "topic": ""},
    ]);
    exchanges.push(documented("GET /kv_event_sources", None, "200 OK", &sources.to_string()));
    exchanges.push(documented("POST /tokenize", None, "200 OK", "{\"tokens\":[64]}"));

    let found = probed(exchanges).await;
    assert_eq!(found.engine, EngineKind::Vllm);
    assert_eq!(found.version.as_deref(), Some("0.32.0"));
    let [model] = &found.models[..] else { panic!("{:?}", found.models) };
    assert_eq!((model.id.as_str(), &model.parent), ("tiny-qwen3", &None));
    assert_eq!(model.max_model_len, Some(Tokens::new(2048)));
    assert_eq!(found.block_size, Some(BlockSize::new(32).unwrap()));
    assert_eq!(found.kv_capacity, Some(Blocks::new(64)));
    assert!(found.can_tokenize);
    assert_eq!(found.events.len(), 2);
    assert_eq!(found.events[0], events(0, 5557));
    let elsewhere = EventAddress::Connect("tcp://10.0.0.1:5558".parse().unwrap());
    assert_eq!((&found.events[1].events, &found.events[1].replay), (&elsewhere, &None));
    assert_eq!(found.dp_ranks, 3);
    assert_eq!((found.context_length, found.vocabulary), (Some(Tokens::new(2048)), None));
    assert_eq!(model.root.as_deref(), Some("/srv/engines/models/tiny-qwen3"));
    assert_eq!((found.role, found.bootstrap_port, found.reports_reuse), (None, None, None));
    assert_eq!(found.caches_prefixes, Some(true));
    let claims: Vec<_> = found.rank_claims.iter().map(|claim| (claim.path, claim.ranks)).collect();
    assert_eq!(claims, [("/metrics", 1), ("/kv_event_sources", 3)]);
    let [note] = &found.notes[..] else { panic!("{:?}", found.notes) };
    assert!(note.contains("ipc:///tmp/events"), "{note}");
}

/// As release 0.32 answers.
#[tokio::test]
async fn vllm_names_its_event_sources_by_rank() {
    let of_rank = |port: u16| {
        json!({
            "enable_kv_cache_events": true, "publisher": "zmq", "endpoint": format!("tcp://*:{port}"),
            "replay_endpoint": format!("tcp://*:{}", port + 1000), "buffer_steps": 10_000, "hwm": 100_000,
            "max_queue_size": 100_000, "topic": "kv-events",
        })
    };
    let with = async |sources: serde_json::Value| {
        let mut exchanges = captured("vllm");
        exchanges.push(documented("GET /kv_event_sources", None, "200 OK", &sources.to_string()));
        let found = probed(exchanges).await;
        (found.dp_ranks, found.events)
    };
    let two = json!({"10": of_rank(5567), "0": of_rank(5557)});
    assert_eq!(
        with(two).await,
        (11, vec![events(0, 5557), events(10, 5567)]),
        "ports are those of the ranks"
    );
    let mut off = of_rank(5557);
    off["enable_kv_cache_events"] = json!(false);
    let mut unpublished = of_rank(5557);
    unpublished["publisher"] = json!("null");
    assert_eq!(with(json!({"0": off})).await, (1, vec![]));
    assert_eq!(with(json!({"0": unpublished, "1": 7, "x": {}})).await, (1, vec![]));
    assert_eq!(with(json!({})).await, (1, vec![]));
}

#[tokio::test]
async fn an_older_vllm_leaves_questions_open() {
    let found = probed(captured("vllm")).await;
    assert_eq!((found.engine, found.dp_ranks), (EngineKind::Vllm, 1));
    assert_eq!((found.block_size, found.kv_capacity, found.events), (None, None, vec![]));
    assert!(!found.can_tokenize);
}

#[tokio::test]
async fn vllm_adapters_name_their_base() {
    let models = json!({"data": [
        {"id": "base", "owned_by": "vllm", "root": "/models/base", "parent": null, "max_model_len": 4096},
        {"id": "sql", "owned_by": "vllm", "root": "/adapters/sql", "parent": "base"},
    ]});
    let found = probed(vec![documented("GET /v1/models", None, "200 OK", &models.to_string())]).await;
    let names: Vec<_> =
        found.models.iter().map(|model| (model.id.as_str(), model.parent.as_deref())).collect();
    assert_eq!(names, [("base", None), ("sql", Some("base"))]);
}

#[tokio::test]
async fn sglang() {
    let mut exchanges = captured("sglang");
    let info = json!({
        "page_size": 16, "dp_size": 2, "version": "0.5.23", "kv_events": {
            "publisher": "zmq", "endpoint_host": "*", "endpoint_port_base": 9301, "topic": "kv-events",
            "block_size": 16, "dp_size": 2, "replay_endpoint_port_base": 10301, "load_endpoint_port_base": null,
        },
    });
    exchanges.push(documented("GET /server_info", None, "200 OK", &info.to_string()));
    exchanges.push(documented("POST /tokenize", None, "200 OK", "{\"tokens\":[64]}"));

    let found = probed(exchanges).await;
    assert_eq!((found.engine, found.version.as_deref()), (EngineKind::Sglang, Some("0.5.23")));
    assert_eq!(found.block_size, Some(BlockSize::new(16).unwrap()));
    assert_eq!(found.kv_capacity, Some(Blocks::new(128)));
    assert_eq!(found.events, [events(0, 9301), events(1, 9302)]);
    assert_eq!((found.dp_ranks, found.can_tokenize), (2, true));
    assert_eq!(found.models[0].max_model_len, Some(Tokens::new(2000)));
}

#[tokio::test]
async fn sglang_tells_what_it_was_started_for() {
    let probed_with = async |info: serde_json::Value| {
        let mut exchanges = captured("sglang");
        exchanges.push(documented("GET /server_info", None, "200 OK", &info.to_string()));
        probed(exchanges).await
    };
    let prefill = probed_with(json!({
        "disaggregation_mode": "prefill", "disaggregation_bootstrap_port": 9998, "enable_cache_report": false,
        "disable_radix_cache": true, "kv_events": {"endpoint_port_base": 9301, "block_size": 64},
    }))
    .await;
    assert_eq!((prefill.role, prefill.bootstrap_port), (Some(WorkerRole::Prefill), Some(9998)));
    assert_eq!((prefill.reports_reuse, prefill.caches_prefixes), (Some(false), Some(false)));
    assert_eq!(prefill.announced_block_size, Some(BlockSize::new(64).unwrap()));
    let [note] = &prefill.notes[..] else { panic!("{:?}", prefill.notes) };
    assert!(note.contains("--disable-radix-cache"), "{note}");

    let silent = probed_with(json!({"disaggregation_mode": "prefill"})).await;
    assert_eq!(silent.bootstrap_port, Some(8998), "the port that it has unless told otherwise");
    for (mode, role) in
        [("decode", Some(WorkerRole::Decode)), ("null", Some(WorkerRole::Aggregated)), ("new", None)]
    {
        let found =
            probed_with(json!({"disaggregation_mode": mode, "disaggregation_bootstrap_port": 9998})).await;
        assert_eq!((found.role, found.bootstrap_port), (role, None), "{mode}");
    }
}

#[tokio::test]
async fn the_context_of_the_base_model_counts_and_the_engines_own_where_that_is_silent() {
    let models = json!({"data": [
        {"id": "sql", "owned_by": "sglang", "parent": "base", "max_model_len": 1000},
        {"id": "base", "owned_by": "sglang", "max_model_len": 4096},
    ]});
    let info = documented("GET /server_info", None, "200 OK", r#"{"context_length":2000}"#);
    let found =
        probed(vec![documented("GET /v1/models", None, "200 OK", &models.to_string()), info.clone()]).await;
    assert_eq!(found.context_length, Some(Tokens::new(4096)));
    let silent = r#"{"data":[{"id":"base","owned_by":"sglang"}]}"#;
    let found = probed(vec![documented("GET /v1/models", None, "200 OK", silent), info]).await;
    assert_eq!(found.context_length, Some(Tokens::new(2000)));
}

#[tokio::test]
async fn an_endpoint_that_answers_no_tokens_cannot_tokenize() {
    let mut exchanges = captured("llamacpp");
    exchanges.push(documented("POST /tokenize", None, "200 OK", "{\"tokens\":[]}"));
    assert!(!probed(exchanges).await.can_tokenize);
}

#[tokio::test]
async fn sglang_without_events_announces_none() {
    let info = json!({"page_size": 16, "kv_events": null});
    let mut exchanges = captured("sglang");
    exchanges.push(documented("GET /server_info", None, "200 OK", &info.to_string()));
    let found = probed(exchanges).await;
    assert_eq!((found.events, found.version.as_deref()), (vec![], Some("0.5.23")));
}

#[tokio::test]
async fn more_ranks_than_any_engine_has_are_not_believed() {
    let events = json!({"endpoint_port_base": 9301, "dp_size": u32::MAX});
    let sglang = [
        documented("GET /v1/models", None, "200 OK", r#"{"data":[{"id":"m","owned_by":"sglang"}]}"#),
        documented(
            "GET /server_info",
            None,
            "200 OK",
            &json!({"dp_size": 4_000_000, "kv_events": events}).to_string(),
        ),
    ];
    let sources = json!([{"data_parallel_rank": u32::MAX, "endpoint": "tcp://*:5557"}]);
    let vllm = [
        documented("GET /v1/models", None, "200 OK", r#"{"data":[{"id":"m","owned_by":"vllm"}]}"#),
        documented("GET /kv_event_sources", None, "200 OK", &sources.to_string()),
    ];
    for exchanges in [sglang, vllm] {
        let found = probed(exchanges.to_vec()).await;
        assert_eq!((found.dp_ranks, found.events), (1, vec![]));
        let note = found.notes.last().unwrap();
        assert!(note.contains("4294967295") && note.contains("dp_ranks"), "{note}");
    }
}

#[tokio::test]
async fn llamacpp() {
    let mut exchanges = captured("llamacpp");
    exchanges.push(documented("POST /tokenize", None, "200 OK", "{\"tokens\":[64]}"));
    let found = probed(exchanges).await;
    assert_eq!(found.engine, EngineKind::LlamaCpp);
    assert_eq!(found.models[0].id, "tiny-qwen3");
    assert_eq!(found.models[0].max_model_len, Some(Tokens::new(2048)));
    assert_eq!(found.block_size, Some(BlockSize::DEFAULT));
    assert_eq!(found.kv_capacity, Some(Blocks::new(4 * 2048 / 16)));
    assert_eq!((found.context_length, found.vocabulary), (Some(Tokens::new(2048)), Some(151_936)));
    assert_eq!((found.events, found.can_tokenize), (vec![], true));
}

#[tokio::test]
async fn an_engine_that_hides_its_owner_is_known_by_its_own_paths() {
    let models = documented("GET /v1/models", None, "200 OK", r#"{"data":[{"id":"m","owned_by":"me"}]}"#);
    let props = documented("GET /props", None, "200 OK", r#"{"total_slots":1}"#);
    let info = documented("GET /model_info", None, "200 OK", "{}");
    let version = documented("GET /version", None, "200 OK", r#"{"version":"1.2.0"}"#);
    let trtllm =
        documented("GET /v1/models", None, "200 OK", r#"{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}"#);
    assert_eq!(probed(vec![models.clone(), props]).await.engine, EngineKind::LlamaCpp);
    assert_eq!(probed(vec![models.clone(), info]).await.engine, EngineKind::Sglang);
    let found = probed(vec![trtllm, version]).await;
    assert_eq!((found.engine, found.version.as_deref()), (EngineKind::TensorRtLlm, Some("1.2.0")));
    assert_eq!(found.events, []);
    let found = probed(vec![models]).await;
    assert_eq!((found.engine, found.block_size), (EngineKind::OpenAi, Some(BlockSize::DEFAULT)));
}

#[tokio::test]
async fn a_probe_finds_events_to_poll_without_taking_any() {
    let models = r#"{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}"#;
    let server = CapturedServer::start(vec![
        documented("GET /v1/models", None, "200 OK", models),
        documented(
            "GET /kv_cache_events",
            None,
            "405 Method Not Allowed",
            r#"{"detail":"Method Not Allowed"}"#,
        ),
        documented("POST /kv_cache_events", None, "200 OK", "[]"),
    ])
    .await;
    let found = probe(&client(), &server.url).await.unwrap();
    let [announced] = &found.events[..] else { panic!("{:?}", found.events) };
    assert_eq!((announced.dp_rank, &announced.replay), (DpRank::new(0), &None));
    assert_eq!(announced.events, EventAddress::Poll { url: server.url.clone() });
    assert_eq!(server.posted("/kv_cache_events"), [json!(null); 0]);
}

#[tokio::test]
async fn what_is_no_usable_worker_is_named_with_its_url() {
    let cases = [
        (documented("GET /v1/models", None, "503 Service Unavailable", "{}"), "is still loading its model"),
        (documented("GET /v1/models", None, "401 Unauthorized", "{}"), "asks for an API key"),
        (documented("GET /v1/models", None, "500 Oops", "{}"), "with status 500"),
        (documented("GET /v1/models", None, "200 OK", "<html>"), "OpenAI-compatible server"),
        (documented("GET /v1/models", None, "200 OK", "{\"data\":[]}"), "an empty list of models"),
        (documented("GET /other", None, "200 OK", ""), "with status 404"),
    ];
    for (exchange, what) in cases {
        let server = CapturedServer::start(vec![exchange]).await;
        let message = probe(&client(), &server.url).await.unwrap_err().to_string();
        assert!(message.contains(what) && message.contains(&server.url), "{message}");
    }
}

#[tokio::test]
async fn a_worker_that_is_down_is_unreachable_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = probe(&client(), &url).await.unwrap_err();
    assert!(matches!(error, ProbeError::Unreachable { .. }));
    let message = error.to_string();
    assert!(message.contains(&url) && message.contains("refused"), "{message}");

    for url in ["not a url", "http://", "127.0.0.1:8000/x y"] {
        let message = probe(&client(), url).await.unwrap_err().to_string();
        assert!(message.contains(url), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_hangs_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let message = probe(&client(), &url).await.unwrap_err().to_string();
    assert!(message.contains("no answer within 10 s"), "{message}");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let endless = " ".repeat(33 << 20);
    let server = CapturedServer::start(vec![documented("GET /v1/models", None, "200 OK", &endless)]).await;
    let message = probe(&client(), &server.url).await.unwrap_err().to_string();
    assert!(message.contains("longer than 32 MiB"), "{message}");
}

#[tokio::test]
async fn a_question_that_fails_is_unanswered_and_one_that_does_not_exist_is_not() {
    let mut exchanges = captured("vllm");
    exchanges.push(documented("GET /kv_event_sources", None, "500 Internal Server Error", "{}"));
    assert_eq!(probed(exchanges).await.unanswered, ["/kv_event_sources"]);
    let mut exchanges = captured("vllm");
    exchanges.push(documented("GET /kv_event_sources", None, "404 Not Found", "{}"));
    assert!(probed(exchanges).await.unanswered.is_empty());
}
