//! A worker that leaves its pool while it still answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::BodyExt;
use kvroute_core::ModelName;
use kvroute_testkit::{Fleet, server_config};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::exposition::series_of;

const CHAT: &str = "/v1/chat/completions";

/// What a worker does next.
#[derive(Debug, Default)]
struct Script {
    /// It serves another model from now on, and breaks off new requests.
    is_another: AtomicBool,
    /// The answer that is open may end.
    may_end: Notify,
}

/// A worker that begins one stream and ends it when it is told to.
async fn serve(listener: TcpListener, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer(stream, Arc::clone(&script)));
    }
}

async fn answer(mut stream: TcpStream, script: Arc<Script>) {
    let mut request = vec![0; 65_536];
    while let Ok(length @ 1..) = stream.read(&mut request).await {
        let request = &request[..length];
        let is_another = script.is_another.load(Ordering::Acquire);
        if request.starts_with(b"POST /v1/chat") {
            if !is_another {
                let _ = stream_slowly(&mut stream, &script).await;
            }
            return;
        }
        let (status, body) = match request.starts_with(b"GET /v1/models") {
            true if is_another => ("200 OK", r#"{"object":"list","data":[{"id":"another"}]}"#),
            true => ("200 OK", r#"{"object":"list","data":[{"id":"sim"}]}"#),
            false => ("404 Not Found", ""),
        };
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn stream_slowly(stream: &mut TcpStream, script: &Script) -> std::io::Result<()> {
    let event = |data: &str| format!("data: {data}\n\n");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let first = json!({"choices": [{"index": 0, "delta": {"content": "so "}}]}).to_string();
    stream.write_all((head.to_owned() + &event(&first)).as_bytes()).await?;
    script.may_end.notified().await;
    let last =
        json!({"choices": [{"index": 0, "delta": {"content": "long"}, "finish_reason": "stop"}]}).to_string();
    stream.write_all((event(&last) + &event("[DONE]")).as_bytes()).await
}

#[tokio::test]
async fn an_attempt_that_outlives_its_worker_brings_none_of_its_series_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, script) = (format!("http://{}", listener.local_addr().unwrap()), Arc::new(Script::default()));
    let mut workers = JoinSet::new();
    workers.spawn(serve(listener, Arc::clone(&script)));
    let of_one_model = |_: &[String]| {
        let mut config = server_config(&[url], "kv");
        config.router.pools[0].model = Some(ModelName::new("sim"));
        config
    };
    let fleet = Fleet::start_with(Vec::new(), of_one_model).await;
    fleet.client.until(&fleet.data("/ready"), |answer| answer.status == 200).await;
    let of_ranks = async || {
        let all = series_of(&fleet).await;
        all.into_iter().filter(|series| series.labels.contains_key("dp_rank")).count()
    };
    assert!(of_ranks().await > 10);

    let body = json!({"model": "sim", "messages": [{"role": "user", "content": "hello"}], "stream": true});
    let mut open = fleet.client.open(&fleet.data(CHAT), &body).await.into_body();
    open.frame().await.unwrap().unwrap();
    script.is_another.store(true, Ordering::Release);
    assert_eq!(fleet.client.post(&fleet.data(CHAT), &body).await.status, 502);
    let has_left = |text: &str| text.contains("serves another, not the pool's model sim");
    fleet.client.until(&fleet.admin("/api/workers"), |answer| has_left(&answer.text())).await;
    assert_eq!(of_ranks().await, 0, "the worker has left");

    script.may_end.notify_one();
    let rest = open.collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&rest).contains("[DONE]"), "{rest:?}");
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "completed")]), 1);
    assert_eq!(of_ranks().await, 0, "nothing came back");
    fleet.stop().await;
}
