//! HTTP/2 on the data plane, without TLS: streams that know nothing of each other.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kvroute_server::ServeConfig;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Fleet, server_config};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A client with one connection; it ends when the client is dropped.
struct Client {
    requests: SendRequest<Full<Bytes>>,
    _connection: JoinSet<()>,
}

impl Client {
    async fn connect(fleet: &Fleet) -> Self {
        let socket = TcpStream::connect(fleet.server.data_address()).await.unwrap();
        let (requests, connection) = Builder::new(TokioExecutor::new())
            .initial_stream_window_size(Some(65_535))
            .initial_connection_window_size(Some(16 << 20))
            .handshake(TokioIo::new(socket))
            .await
            .unwrap();
        let mut running = JoinSet::new();
        running.spawn(async move { drop(connection.await) });
        Self { requests, _connection: running }
    }

    async fn ask(&mut self, body: &Value) -> Response<Incoming> {
        let request =
            Request::post("http://router/v1/completions").header("content-type", "application/json");
        let request = request.body(Full::from(body.to_string())).unwrap();
        self.requests.send_request(request).await.unwrap()
    }
}

async fn fleet(decode_tps: u64, change: impl FnOnce(&mut ServeConfig)) -> Fleet {
    let engine = SimConfig { decode_tps, ..SimConfig::default() };
    let router = |urls: &[String]| {
        let mut config = server_config(urls, "kv");
        change(&mut config);
        config
    };
    Fleet::start_unfollowed(vec![engine], router).await
}

fn stream(max_tokens: u32) -> Value {
    json!({"model": "sim", "prompt": [1, 2, 3], "max_tokens": max_tokens, "ignore_eos": true, "stream": true})
}

async fn is_running(fleet: &Fleet, sequences: u64) {
    let stats = format!("{}/stats", fleet.engines[0].url());
    fleet.client.until(&stats, |answer| answer.json()["running"] == sequences).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_requests_share_a_connection_and_each_gets_its_own_answer() {
    let fleet = fleet(0, |_| {}).await;
    let client = Client::connect(&fleet).await;
    let mut asked = JoinSet::new();
    for tokens in 1..=50 {
        let requests = client.requests.clone();
        asked.spawn(async move {
            let mut client = Client { requests, _connection: JoinSet::new() };
            let body =
                json!({"model": "sim", "prompt": [1, 2, tokens], "max_tokens": tokens, "ignore_eos": true});
            let answer = client.ask(&body).await;
            assert_eq!(answer.status(), StatusCode::OK);
            assert!(answer.headers().contains_key("x-request-id"));
            let bytes = answer.into_body().collect().await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(answer["usage"]["completion_tokens"], tokens);
        });
    }
    while let Some(ended) = asked.join_next().await {
        ended.unwrap();
    }
    drop(client);
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "completed")]), 50);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_reset_ends_its_request_and_no_other() {
    let fleet = fleet(1, |_| {}).await;
    let mut client = Client::connect(&fleet).await;
    let (first, second) = (client.ask(&stream(2_000)).await, client.ask(&stream(2_000)).await);
    is_running(&fleet, 2).await;
    drop(first);
    is_running(&fleet, 1).await;
    drop((second, client));
    is_running(&fleet, 0).await;
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), 2);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_reset_before_its_answer_ends() {
    let slow = SimConfig { prefill_tps: 1, ..SimConfig::default() };
    let fleet = Fleet::start_unfollowed(vec![slow], |urls| server_config(urls, "kv")).await;
    let mut client = Client::connect(&fleet).await;
    let body = json!({"model": "sim", "prompt": vec![7; 900], "max_tokens": 1});
    {
        let mut asked = std::pin::pin!(client.ask(&body));
        let stats = format!("{}/stats", fleet.engines[0].url());
        tokio::select! {
            _ = &mut asked => panic!("a prompt that takes minutes was answered"),
            _ = fleet.client.until(&stats, |answer| answer.json()["requests"] == 1) => {}
        }
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), 1);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_nobody_reads_is_cut_while_the_others_of_its_connection_go_on() {
    let fleet = fleet(0, |config| config.security.limits.stall = Duration::from_millis(300)).await;
    let mut client = Client::connect(&fleet).await;
    let unread = client.ask(&stream(100_000)).await;
    for _ in 0..5 {
        let answer = client.ask(&stream(20)).await.into_body().collect().await.unwrap().to_bytes();
        assert!(answer.ends_with(b"data: [DONE]\n\n"), "{answer:?}");
    }
    is_running(&fleet, 0).await;
    let cut = unread.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    assert!(!cut.ends_with(b"data: [DONE]\n\n"), "a stream that was cut is not complete");
    let answer = client.ask(&stream(20)).await;
    assert_eq!(answer.status(), StatusCode::OK, "the connection is as good as before");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_streams_of_a_shared_connection_end() {
    let fleet = fleet(200, |_| {}).await;
    let mut client = Client::connect(&fleet).await;
    let answer = client.ask(&stream(100)).await;
    let Fleet { server, engines, .. } = fleet;
    let read = async { answer.into_body().collect().await.unwrap().to_bytes() };
    let (bytes, ()) = tokio::join!(read, server.stop());
    assert!(bytes.ends_with(b"data: [DONE]\n\n"), "{bytes:?}");
    drop(engines);
}
