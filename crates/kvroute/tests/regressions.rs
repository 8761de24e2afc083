//! Faults that once were, each named after its cause.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{Client, Exposition, Fleet, RunningProcess, engine, server_config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const CHAT: &str = "/v1/chat/completions";
const LONG: Duration = Duration::from_secs(60);

fn chat(max_tokens: u32, stream: bool) -> Value {
    json!({
        "model": "sim", "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": max_tokens, "ignore_eos": true, "stream": stream,
    })
}

/// A client that writes its requests by hand, followed by `extra`.
async fn sent_by_hand(fleet: &Fleet, version: &str, body: &Value, extra: &str) -> TcpStream {
    let body = body.to_string();
    let request = format!(
        "POST {CHAT} HTTP/{version}\r\nhost: router\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}{extra}",
        body.len()
    );
    let mut stream = TcpStream::connect(fleet.server.data_address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn is_running(fleet: &Fleet, sequences: u64) {
    let stats = format!("{}/stats", fleet.engines[0].url());
    fleet.client.until(&stats, |answer| answer.json()["running"] == sequences).await;
}

/// Bytes behind the request must not hide that the connection has ended: some clients send a line break after
/// their body, others pipeline.
#[tokio::test]
async fn unread_bytes_of_a_client_hid_that_it_had_left() {
    let slow = SimConfig { decode_tps: 1, ..SimConfig::default() };
    let fleet = Fleet::start(vec![slow], "kv").await;
    for extra in ["", "\r\n", "GET /live HTTP/1.1\r\nhost: router\r\n\r\n"] {
        let client = sent_by_hand(&fleet, "1.1", &chat(2_000, false), extra).await;
        is_running(&fleet, 1).await;
        drop(client);
        is_running(&fleet, 0).await;
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "cancelled")]), 3);
    fleet.stop().await;
}

/// Health alone cannot tell one process from the next: what a worker is must be asked again.
#[tokio::test]
async fn a_worker_that_restarted_between_two_health_checks_was_taken_for_the_old_one() {
    let mut fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let old = fleet.engines.remove(0);
    let listen = old.address();
    assert_eq!(fleet.client.post(&fleet.data(CHAT), &chat(2, false)).await.status, 200);
    old.stop().await;
    fleet.engines.push(engine(SimConfig { listen, model: "other".to_owned(), ..SimConfig::default() }).await);
    let is_known = |worker: &Value| {
        worker["model"] == "other"
            && worker["state"] == "ready"
            && worker["ranks"][0]["source_state"] == "exact"
    };
    fleet.client.until(&fleet.admin("/api/workers"), |answer| is_known(&answer.json()[0])).await;
    let mut body = chat(2, false);
    body["model"] = json!("other");
    let answer = fleet.client.post(&fleet.data(CHAT), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    fleet.stop().await;
}

/// A worker that answers every chat with the same bytes and then closes the connection.
async fn serve_script(listener: TcpListener, answer: String) {
    const MODELS: &str = r#"{"object":"list","data":[{"id":"sim"}]}"#;
    let mut connections = JoinSet::new();
    while let Ok((mut stream, _peer)) = listener.accept().await {
        let answer = answer.clone();
        connections.spawn(async move {
            let mut request = vec![0; 65_536];
            while let Ok(length @ 1..) = stream.read(&mut request).await {
                if request[..length].starts_with(b"POST /v1/chat") {
                    let _client_may_have_left = stream.write_all(answer.as_bytes()).await;
                    return;
                }
                let status = if request.starts_with(b"GET /v1/models") { "200 OK" } else { "404 Not Found" };
                let length = MODELS.len();
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{MODELS}");
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// A router in front of one scripted worker.
async fn scripted(answer: String, total: Duration) -> (Fleet, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut workers = JoinSet::new();
    workers.spawn(serve_script(listener, answer));
    let with_limit = |_: &[String]| {
        let mut config = server_config(&[url], "round-robin");
        config.router.pools[0].timeouts.total = total;
        config
    };
    let fleet = Fleet::start_with(Vec::new(), with_limit).await;
    fleet.client.until(&fleet.data("/ready"), |answer| answer.status == 200).await;
    (fleet, workers)
}

/// One HTTP/1.1 chunk.
fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

const EVENT_STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const TEXT_EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n";

/// What comes behind `[DONE]` is no part of the answer, and neither is its absence.
#[tokio::test]
async fn a_connection_that_broke_behind_done_spoiled_a_complete_answer() {
    let events = format!("{TEXT_EVENT}data: [DONE]\n\n");
    let (fleet, _workers) = scripted(format!("{EVENT_STREAM}{}", chunk(&events)), LONG).await;
    let answer = fleet.client.post(&fleet.data(CHAT), &chat(2, true)).await;
    assert_eq!(answer.text(), events);
    assert_eq!(fleet.at_rest().await.count("kvroute_requests_total", &[("outcome", "completed")]), 1);
    fleet.stop().await;
}

/// An engine that reports its own failure in the stream has not served the request.
#[tokio::test]
async fn an_error_event_of_the_engine_counted_as_completed() {
    let events =
        format!("{TEXT_EVENT}data: {{\"error\":{{\"message\":\"out of memory\"}}}}\n\ndata: [DONE]\n\n");
    let ended = format!("{EVENT_STREAM}{}{}", chunk(&events), chunk(""));
    let (fleet, _workers) = scripted(ended, LONG).await;
    let answer = fleet.client.post(&fleet.data(CHAT), &chat(2, true)).await;
    assert_eq!(answer.text(), events);
    assert_eq!(fleet.at_rest().await.count("kvroute_requests_total", &[("outcome", "failed")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn a_protocol_switch_that_nobody_asked_for_was_passed_on() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let (fleet, _workers) = scripted(switch.to_owned(), LONG).await;
    let answer = fleet.client.post(&fleet.data(CHAT), &chat(2, false)).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (502, &json!("upstream_broke")));
    fleet.stop().await;
}

/// A client that leaves while it still sends has made a request too.
#[tokio::test]
async fn clients_that_left_before_their_body_was_read_were_not_counted() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let mut client = TcpStream::connect(fleet.server.data_address()).await.unwrap();
    let half = format!("POST {CHAT} HTTP/1.1\r\nhost: router\r\ncontent-length: 100\r\n\r\n{{");
    client.write_all(half.as_bytes()).await.unwrap();
    drop(client);
    let cancelled = |text: &str| {
        let scrape = Exposition::parse(text);
        scrape.count("kvroute_requests_total", &[("model", "unknown"), ("outcome", "cancelled")])
    };
    fleet.client.until(&fleet.admin("/metrics"), |answer| cancelled(&answer.text()) == 1).await;
    fleet.stop().await;
}

/// A stream that nobody reads is not polled, so its deadline has to ring by itself.
#[tokio::test]
async fn the_total_limit_did_not_hold_for_a_client_that_does_not_read() {
    // More than every buffer on the way holds.
    let flood = format!("{EVENT_STREAM}{}", chunk(&TEXT_EVENT.repeat(1_000)).repeat(1_000));
    let (fleet, _workers) = scripted(flood, Duration::from_secs(2)).await;
    let client = sent_by_hand(&fleet, "1.1", &chat(2, true), "").await;
    let failed =
        |text: &str| Exposition::parse(text).count("kvroute_requests_total", &[("outcome", "failed")]);
    fleet.client.until(&fleet.admin("/metrics"), |answer| failed(&answer.text()) == 1).await;
    assert_eq!(fleet.at_rest().await.count("kvroute_attempts_total", &[]), 1);
    drop(client);
    fleet.stop().await;
}

#[tokio::test]
async fn the_total_limit_was_reported_as_first_byte() {
    let hanging = SimConfig { faults: Faults { hang: true, ..Faults::default() }, ..SimConfig::default() };
    let with_limit = |urls: &[String]| {
        let mut config = server_config(urls, "round-robin");
        config.router.pools[0].timeouts.total = Duration::from_millis(300);
        config
    };
    let fleet = Fleet::start_with(vec![hanging], with_limit).await;
    let answer = fleet.client.post(&fleet.data(CHAT), &chat(2, false)).await;
    assert_eq!(answer.status, 504);
    let message = answer.error()["message"].to_string();
    assert!(message.contains("exceeded timeouts.total of 300ms"), "{message}");
    fleet.stop().await;
}

/// Without chunks the end of the connection is the end of the answer, so a cut must be told by an event.
#[tokio::test]
async fn the_end_of_the_drain_time_looked_like_the_end_of_the_answer() {
    let slow = SimConfig { decode_tps: 20, ..SimConfig::default() };
    let with_drain = |urls: &[String]| {
        let mut config = server_config(urls, "round-robin");
        config.drain = Duration::from_millis(200);
        config
    };
    let fleet = Fleet::start_with(vec![slow], with_drain).await;
    let mut client = sent_by_hand(&fleet, "1.0", &chat(2_000, true), "").await;
    let mut text = vec![0; 512];
    client.read_exact(&mut text).await.unwrap();
    let Fleet { engines, server, .. } = fleet;
    server.stop().await;
    let _ended = client.read_to_end(&mut text).await;
    let text = String::from_utf8_lossy(&text);
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("data: {\"error\":"), "{last}");
    for engine in engines {
        engine.stop().await;
    }
}

/// The simulated engine allocated what one request asked for, and died of it.
#[tokio::test]
async fn a_request_for_four_billion_choices_ended_the_engine() {
    let arguments = ["engine", "--listen", "127.0.0.1:0"];
    let mut engine = RunningProcess::start(env!("CARGO_BIN_EXE_kvroute"), &arguments);
    let url = engine.announced("url").await;
    let client = Client::default();
    let mut body = chat(2, false);
    body["n"] = json!(u32::MAX);
    let answer = client.post(&format!("{url}{CHAT}"), &body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(client.get(&format!("{url}/health")).await.status, 200);
}

/// Usage that was injected brought usage in every chunk with it.
#[tokio::test]
async fn continuous_usage_that_had_no_effect_came_to_life() {
    let fleet = Fleet::start(vec![SimConfig::default()], "kv").await;
    let mut body = chat(4, true);
    body["stream_options"] = json!({"continuous_usage_stats": true});
    let answer = fleet.client.post(&fleet.data(CHAT), &body).await;
    assert!(answer.text().contains("[DONE]") && !answer.text().contains("usage"), "{}", answer.text());
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_router_reuse_reports_total", &[("outcome", "reported")]), 1);
    fleet.stop().await;
}

#[tokio::test]
async fn the_admin_plane_refused_without_a_word() {
    let fleet = Fleet::start(Vec::new(), "kv").await;
    let answer = fleet.client.get(&fleet.admin("/v1/models")).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (404, &json!("path_not_found")));
    let answer = fleet.client.post(&fleet.admin("/metrics"), &json!({})).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["code"]), (405, &json!("method_not_allowed")));
    fleet.stop().await;
}
