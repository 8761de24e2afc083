//! More clients than a router serves: those beyond are told so at once, and the others never notice.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, Fleet, Ledger, server_config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::site::{CHAT, COMPLETIONS};

/// Nothing takes longer unless it hangs.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// Connections of clients at a time.
const ROOM: usize = 6;
/// Clients that come when there is none; each of them twice.
const BEYOND: usize = 20;

fn question(path: &str, stream: bool, max_tokens: usize) -> Value {
    let mut body = json!({"model": "sim", "max_tokens": max_tokens, "ignore_eos": true, "stream": stream});
    match path {
        CHAT => body["messages"] = json!([{"role": "user", "content": "hello"}]),
        _ => body["prompt"] = "hello".into(),
    }
    body
}

async fn read(client: Client, url: String, body: Value) -> Bytes {
    let answer = client.open(&url, &body).await;
    assert_eq!(answer.status(), 200);
    answer.into_body().collect().await.unwrap().to_bytes()
}

/// All that a client is told that has written its request and reads until the end.
async fn told(address: SocketAddr, path: &str) -> String {
    let body = question(path, true, 2).to_string();
    let length = body.len();
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: router\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    client.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut told = String::new();
    client.read_to_string(&mut told).await.unwrap();
    told
}

async fn until_served(address: SocketAddr) {
    let served = async {
        while !told(address, COMPLETIONS).await.starts_with("HTTP/1.1 200 ") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANGS_AFTER, served).await.unwrap();
}

fn is_turned_away(told: &str) {
    let (head, body) = told.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nretry-after: "), "{told}");
    let error = &serde_json::from_str::<Value>(body).unwrap()["error"];
    assert_eq!(error["code"], "overloaded", "{told}");
    assert!(error["message"].as_str().unwrap().contains("server.limits.connections"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_beyond_the_connections_are_told_so_and_the_others_are_unharmed() {
    let config = SimConfig { decode_tps: 40, ..SimConfig::default() };
    let fleet = Fleet::start_unfollowed(vec![config], |urls| {
        let mut config = server_config(urls, "kv");
        config.security.limits.connections = ROOM;
        config
    })
    .await;
    let mut served = JoinSet::new();
    for (number, path) in [COMPLETIONS, CHAT].into_iter().cycle().take(ROOM).enumerate() {
        let stream = number % 3 != 0;
        served.spawn(read(Client::default(), fleet.data(path), question(path, stream, 80)));
    }
    let stats = format!("{}/stats", fleet.engines[0].url());
    fleet.client.until(&stats, |answer| answer.json()["running"] == ROOM).await;

    let mut turned_away = JoinSet::new();
    for path in [COMPLETIONS, CHAT].into_iter().cycle().take(BEYOND) {
        let address = fleet.server.data_address();
        turned_away.spawn(async move {
            for _ in 0..2 {
                is_turned_away(&told(address, path).await);
            }
            // A client that takes an answer only behind its request.
            let url = format!("http://{address}{path}");
            let answer = Client::default().post(&url, &question(path, true, 2)).await;
            assert_eq!((answer.status.as_u16(), answer.error()["code"].as_str()), (503, Some("overloaded")));
        });
    }
    for ended in turned_away.join_all().await {
        let () = ended;
    }
    assert_eq!(fleet.engines[0].stats().running, ROOM as u64, "those who were there are still served");
    for body in served.join_all().await {
        let text = String::from_utf8_lossy(&body);
        let is_whole = text.ends_with("data: [DONE]\n\n") || text.contains("\"completion_tokens\":80");
        assert!(is_whole, "{text}");
    }

    // Room for as many as before, as soon as the router has noticed that those have left.
    let address = fleet.server.data_address();
    let again: JoinSet<_> = (0..ROOM).map(|_| until_served(address)).collect();
    again.join_all().await;
    let scrape = fleet.at_rest().await;
    Ledger::of(&scrape).assert_closes();
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "completed")]), 2 * ROOM as u64);
    assert_eq!(scrape.count("kvroute_requests_total", &[]), 2 * ROOM as u64, "nobody else was received");
    fleet.stop().await;
}
