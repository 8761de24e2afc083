//! Clients that leave before their answer has ended.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kvroute_router::config::{QueueConfig, WorkerConfig};
use kvroute_server::ServeConfig;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Client, Fault, kept_address};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::watched::{CHAT, OF_AN_ATTEMPT, Watched, assert_says, faulty, seconds, streamed};

/// Begins a request and leaves once `is_time` has come.
async fn leaves(watched: &Watched, request: &str, body: &Value, is_time: impl Future<Output = ()>) {
    let (client, id) = (Client::default(), watched.id(request));
    let url = watched.fleet.data(CHAT);
    let headers = [("x-request-id", id.as_str())];
    tokio::select! {
        answer = client.post_with(&url, &headers, body) => panic!("answered with {}", answer.status),
        () = is_time => {}
    }
}

/// Waits for a text in the metrics.
async fn until(watched: &Watched, text: &str) {
    let metrics = watched.fleet.admin("/metrics");
    watched.fleet.client.until(&metrics, |answer| answer.text().contains(text)).await;
}

#[tokio::test]
async fn while_its_body_was_read() {
    let watched = Watched::start("body", vec![SimConfig::default()]).await;
    let mut stream = TcpStream::connect(watched.fleet.server.data_address()).await.unwrap();
    let id = watched.id("one");
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nhost: a\r\nx-request-id: {id}\r\ncontent-length: 999\r\n\r\n{{");
    stream.write_all(head.as_bytes()).await.unwrap();
    drop(stream);
    let line = watched.line("one").await;
    let never = [&OF_AN_ATTEMPT[..], &["status", "model", "stream", "queue_seconds"]].concat();
    let expected = [("outcome", "cancelled"), ("attempts", "0"), ("endpoint", "/v1/chat/completions")];
    assert_says(&line, &expected, &never);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn while_it_stood_in_line() {
    let (watched, proxy) = Watched::start_held("line", QueueConfig::default()).await;
    let question = streamed("hello");
    let impatient = async {
        until(&watched, "requests_started_total 1\n").await;
        let in_line = "pending_requests{model=\"sim\",worker_type=\"decode\"} 1\n";
        leaves(&watched, "impatient", &question, until(&watched, in_line)).await;
        proxy.set(Fault::None);
    };
    let (served, ()) = tokio::join!(watched.ask("served", CHAT, &question), impatient);
    assert_eq!(served.status, 200);
    let line = watched.line("impatient").await;
    let never = [&OF_AN_ATTEMPT[..], &["status", "error"]].concat();
    assert_says(&line, &[("outcome", "cancelled"), ("model", "sim"), ("attempts", "0")], &never);
    assert!(seconds(&line, "queue_seconds") <= seconds(&line, "seconds"), "{line:?}");
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn while_no_worker_was_there() {
    let down = kept_address();
    let nobody = |config: &mut ServeConfig| {
        config.router.pools[0].workers = vec![WorkerConfig::at(format!("http://{down}"))];
    };
    let watched = Watched::start_with("no_worker", Vec::new(), nobody).await;
    let in_line = "pending_requests{model=\"unknown\",worker_type=\"decode\"} 1\n";
    leaves(&watched, "one", &streamed("hello"), until(&watched, in_line)).await;
    let line = watched.line("one").await;
    let never = [&OF_AN_ATTEMPT[..], &["status", "error"]].concat();
    assert_says(&line, &[("outcome", "cancelled"), ("model", "sim"), ("attempts", "0")], &never);
    assert!(line.fields.contains_key("queue_seconds"), "{line:?}");
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn before_its_worker_answered() {
    let watched = Watched::start("hangs", faulty(Faults { hang: true, ..Faults::default() })).await;
    let has_it = until(&watched, "requests_started_total 1\n");
    leaves(&watched, "one", &streamed("hello"), has_it).await;
    let line = watched.line("one").await;
    let expected = [("outcome", "cancelled"), ("attempts", "1"), ("report", "unfinished"), ("policy", "kv")];
    assert_says(&line, &expected, &["status", "error", "ttft_seconds", "reused_tokens"]);
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn in_the_middle_of_its_answer() {
    let slow = SimConfig { decode_tps: 20, ..SimConfig::default() };
    let watched = Watched::start("middle", vec![slow]).await;
    let mut body = streamed("hello");
    body["max_tokens"] = 10_000.into();
    let client = legacy::Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = http::Request::post(watched.fleet.data(CHAT)).header("content-type", "application/json");
    let request =
        request.header("x-request-id", watched.id("one")).body(Full::from(body.to_string())).unwrap();
    let mut answer = client.request(request).await.unwrap().into_body();
    let mut told = String::new();
    while told.matches("data: ").count() < 4 {
        let piece = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        told.push_str(std::str::from_utf8(&piece).unwrap());
    }
    drop((answer, client));
    let line = watched.line("one").await;
    assert_says(&line, &[("outcome", "cancelled"), ("status", "200"), ("attempts", "1")], &["error"]);
    assert!(line.fields.contains_key("ttft_seconds"), "{line:?}");
    watched.agrees().await;
    watched.stop().await;
}

#[tokio::test]
async fn a_router_that_stops_cuts_streams_and_tells_of_them() {
    let slow = SimConfig { decode_tps: 20, ..SimConfig::default() };
    let hurried = |config: &mut ServeConfig| config.drain = Duration::from_millis(100);
    let watched = Watched::start_with("stops", vec![slow], hurried).await;
    let mut body = streamed("hello");
    body["max_tokens"] = 10_000.into();
    let answer = async {
        let answer = watched.ask("one", CHAT, &body).await;
        assert!(answer.text().contains("router_stopping"), "{}", answer.text());
    };
    let cut = async {
        until(&watched, "requests_started_total 1\n").await;
        watched.fleet.server.router().cut_streams();
    };
    tokio::join!(answer, cut);
    let line = watched.line("one").await;
    assert_says(&line, &[("outcome", "failed"), ("error", "router_stopping")], &[]);
    watched.agrees().await;
    watched.stop().await;
}
