//! A real llama.cpp server: what the probe finds, that the ids it gives are those it counts, and the load that it tells.
//!
//! `KVROUTE_LLAMA_SERVER` names the program. Without it the test is skipped with a line that says so, unless
//! `KVROUTE_REQUIRE_PEERS=1`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and says on stdout why it was skipped"
)]

use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kvroute_core::{BlockSize, Blocks, DpRank, ModelName};
use kvroute_engine::{EngineKind, HttpClient, Probe, RemoteTokenizer, fetch_load, probe};
use kvroute_openai::{ClientRequest, Endpoint};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

fn program() -> Option<String> {
    let program = std::env::var("KVROUTE_LLAMA_SERVER").ok();
    if program.is_none() {
        let required = std::env::var("KVROUTE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "KVROUTE_REQUIRE_PEERS=1, but KVROUTE_LLAMA_SERVER names no llama-server");
        println!("skipped: set KVROUTE_LLAMA_SERVER to a llama-server");
    }
    program
}

fn start(program: &str, port: u16) -> Child {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/llama/tiny-demo.gguf");
    let port = port.to_string();
    Command::new(program)
        .args(["--model", model, "--host", "127.0.0.1", "--port", &port, "--alias", "tiny"])
        .args([
            "--ctx-size",
            "2048",
            "--parallel",
            "2",
            "--jinja",
            "--no-webui",
            "--threads",
            "1",
            "--metrics",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Asks until the model is loaded.
async fn probed(client: &HttpClient, url: &str, server: &mut Child) -> Probe {
    loop {
        if let Ok(probe) = probe(client, url).await {
            return probe;
        }
        assert_eq!(server.try_wait().unwrap(), None, "llama-server ended");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn counted(client: &HttpClient, url: &str, path: &str, body: &Value) -> u64 {
    let request = http::Request::post(format!("{url}{path}")).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_string()))).unwrap();
    let answer = client.request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    answer["usage"]["prompt_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn a_real_llama_server_is_described_and_counts_the_ids_it_gives() {
    let Some(program) = program() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = start(&program, port);
    let (url, client) = (
        format!("http://127.0.0.1:{port}"),
        Client::builder(TokioExecutor::new()).build(kvroute_engine::Connector::default()),
    );

    let found = probed(&client, &url, &mut server).await;
    assert_eq!((found.engine, found.dp_ranks, found.can_tokenize), (EngineKind::LlamaCpp, 1, true));
    assert_eq!(found.models[0].id, "tiny");
    assert_eq!(found.block_size, Some(BlockSize::DEFAULT));
    assert_eq!(found.kv_capacity, Some(Blocks::new(2048 / 16)));

    let tokenizer = RemoteTokenizer::new(&client, &url, found.engine);
    let requests = [
        (
            Endpoint::ChatCompletions,
            json!({"messages": [{"role": "user", "content": "hello there"}], "max_tokens": 1}),
        ),
        (
            Endpoint::ChatCompletions,
            json!({"messages": [
                {"role": "system", "content": "be short"}, {"role": "user", "content": "one"},
                {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"},
            ], "max_tokens": 1}),
        ),
        (Endpoint::Completions, json!({"prompt": "the quick brown fox", "max_tokens": 1})),
    ];
    for (endpoint, body) in requests {
        let request = ClientRequest::parse(endpoint, Bytes::from(body.to_string())).unwrap();
        let ids = tokenizer.encode(&ModelName::new("tiny"), &request.prompt).await.unwrap();
        assert_eq!(ids.len(), 1);
        assert_eq!(ids[0].len() as u64, counted(&client, &url, endpoint.path(), &body).await, "{body}");
    }
}

#[tokio::test]
async fn a_real_llama_server_tells_what_it_runs_and_what_waits() {
    let Some(program) = program() else { return };
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = start(&program, port);
    let (url, client) = (
        format!("http://127.0.0.1:{port}"),
        Client::builder(TokioExecutor::new()).build(kvroute_engine::Connector::default()),
    );
    let found = probed(&client, &url, &mut server).await;
    let load = async || {
        let loads = fetch_load(&client, &url, found.engine, Duration::from_secs(10)).await.unwrap();
        let load = loads.of(DpRank::new(0), found.dp_ranks).unwrap();
        (load.running, load.waiting)
    };
    assert_eq!(load().await, (0, 0));

    // Two slots: the third request has to wait.
    let body = json!({"prompt": "count", "max_tokens": 1900, "ignore_eos": true, "stream": true}).to_string();
    let request = || {
        let request =
            http::Request::post(format!("{url}/v1/completions")).header("content-type", "application/json");
        request.body(Full::new(Bytes::from(body.clone()))).unwrap()
    };
    let mut streams = JoinSet::new();
    loop {
        match load().await {
            (2, 1) => break,
            (0, 0) => (0..3).for_each(|_| drop(streams.spawn(client.request(request())))),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    streams.abort_all();
    while streams.join_next().await.is_some() {}
    while load().await != (0, 0) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
