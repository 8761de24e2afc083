//! Workers behind TLS: probed, watched and asked like any other, if they are who they should be.

use kvroute_engine::UpstreamTls;
use kvroute_router::config::WorkerConfig;
use kvroute_server::ServeConfig;
use kvroute_sim::{SimConfig, SimEngine};
use kvroute_testkit::{Authority, Client, Pair, engine, server_config};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What takes off the TLS in front of an engine.
struct Front {
    url: String,
    _served: JoinSet<()>,
}

impl Front {
    async fn of(engine: &SimEngine, pair: &Pair, client_ca: Option<&Authority>) -> Self {
        let tls = pair.acceptor(client_ca, &[]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let behind = engine.address();
        let mut served = JoinSet::new();
        served.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let acceptor = tls.clone();
                connections.spawn(async move {
                    let Ok(mut secured) = acceptor.accept(socket).await else { return };
                    let mut plain = TcpStream::connect(behind).await.unwrap();
                    let _ended = tokio::io::copy_bidirectional(&mut secured, &mut plain).await;
                });
            }
        });
        Self { url, _served: served }
    }
}

fn config(url: &str, tls: UpstreamTls) -> ServeConfig {
    let mut config = server_config(&[], "kv");
    config.router.pools[0].workers = vec![WorkerConfig::at(url)];
    config.router.pools[0].tls = tls;
    config
}

async fn chat(client: &Client, server: &kvroute_server::Server) -> Value {
    let body = json!({"model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3});
    let answer = client.post(&format!("http://{}/v1/chat/completions", server.data_address()), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_behind_tls_joins_and_answers_if_it_is_who_it_should_be() {
    let authority = Authority::new("workers");
    let engine = engine(SimConfig::default()).await;
    let front = Front::of(&engine, &authority.issue("worker"), Some(&authority)).await;
    let identity = authority.issue("router").identity();
    let tls = UpstreamTls::load(Some(&authority.ca()), Some(identity)).unwrap();
    let server = kvroute_server::Server::start(config(&front.url, tls)).await.unwrap();
    let client = Client::default();
    let ready = format!("http://{}/ready", server.data_address());
    client.until(&ready, |answer| answer.status == 200).await;
    assert_eq!(chat(&client, &server).await["object"], "chat.completion");
    server.stop().await;
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_be_verified_gets_no_request_and_the_reason_is_shown() {
    let (authority, other) = (Authority::new("ours"), Authority::new("theirs"));
    let engine = engine(SimConfig::default()).await;
    let front = Front::of(&engine, &other.issue("worker"), None).await;
    let tls = UpstreamTls::load(Some(&authority.ca()), None).unwrap();
    let server = kvroute_server::Server::start(config(&front.url, tls.clone())).await.unwrap();
    let client = Client::default();
    let workers = format!("http://{}/api/workers", server.admin_address());
    let is_told = |problem: &Value| problem.as_str().is_some_and(|text| text.contains("UnknownIssuer"));
    client.until(&workers, |answer| is_told(&answer.json()[0]["problem"])).await;
    let body = json!({"model": "sim", "prompt": [1, 2, 3], "max_tokens": 3});
    let answer = client.post(&format!("http://{}/v1/completions", server.data_address()), &body).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    let asked = client.get(&format!("{}/stats", engine.url())).await.json();
    assert_eq!(asked["requests"], 0);
    tls.replace_by(&UpstreamTls::load(Some(&other.ca()), None).unwrap());
    let ready = format!("http://{}/ready", server.data_address());
    client.until(&ready, |answer| answer.status == 200).await;
    server.stop().await;
    engine.stop().await;
}
