//! A client that leaves, at every point where the router waits: its attempt closes once, with what is known by then.

use std::net::SocketAddr;
use std::time::Duration;

use kvroute_core::Tokens;
use kvroute_router::config::{BusyThreshold, WorkerConfig};
use kvroute_server::ServeConfig;
use kvroute_testkit::{Client, Exposition, Fleet, kept_address, server_config};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::scripted::Scripted;
use super::stage::{COMPLETIONS, ids};

const TOKENS: usize = 40;
const REUSED: u64 = 32;
const PENDING: &str = "dynamo_frontend_router_queue_pending_requests";

/// A router in front of these addresses.
async fn fleet(urls: &[String], ready: usize, change: impl FnOnce(&mut ServeConfig)) -> Fleet {
    let mut config = server_config(&[], "kv");
    config.router.pools[0].workers = urls.iter().map(WorkerConfig::at).collect();
    config.router.pools[0].timeouts.connect = Duration::from_secs(60);
    change(&mut config);
    let fleet = Fleet::start_unfollowed(Vec::new(), |_| config).await;
    let is_ready = |worker: &&Value| worker["state"] == "ready";
    let workers = fleet.admin("/api/workers");
    let are_ready = |list: &Value| list.as_array().unwrap().iter().filter(is_ready).count() == ready;
    fleet.client.until(&workers, |answer| are_ready(&answer.json())).await;
    fleet
}

/// A client that waits for the end of an answer; dropped, it leaves.
fn client(fleet: &Fleet, stream: bool, stalls_after: u64) -> JoinSet<()> {
    let usage = json!({
        "prompt_tokens": TOKENS, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": REUSED},
    });
    let body = json!({
        "model": "m", "prompt": ids(1, TOKENS), "max_tokens": 1, "stream": stream,
        "said": {"usage": usage}, "stalls_after": stalls_after,
    });
    let (client, url) = (Client::default(), fleet.data(COMPLETIONS));
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { drop(client.post(&url, &body).await) });
    waiting
}

fn of_attempts(scrape: &Exposition) -> [u64; 3] {
    let ended = |outcome| scrape.count("kvroute_attempts_total", &[("outcome", outcome)]);
    ["completed", "failed", "cancelled"].map(ended)
}

fn of_reports(scrape: &Exposition, outcome: &str) -> u64 {
    scrape.count("kvroute_router_reuse_reports_total", &[("outcome", outcome)])
}

fn of_requests(scrape: &Exposition, model: &str, outcome: &str) -> u64 {
    scrape.count("kvroute_requests_total", &[("model", model), ("outcome", outcome)])
}

/// Waits until the series of a family with these labels add up to so many.
async fn until_counted(fleet: &Fleet, name: &str, labels: &[(&str, &str)], count: f64) {
    let has_come = |text: &str| Exposition::parse(text).sum(name, labels) == Some(count);
    fleet.client.until(&fleet.admin("/metrics"), |answer| has_come(&answer.text())).await;
}

/// A whole answer is head, two halves and an end; a stream is head, text, report, `[DONE]` and an end.
#[tokio::test]
async fn an_attempt_closes_once_wherever_its_client_leaves() {
    for (stream, stalls_after, completes, reports) in [
        (false, 0, false, false),
        (false, 1, false, false),
        (false, 2, false, false),
        (false, 3, false, false),
        (true, 0, false, false),
        (true, 1, false, false),
        (true, 2, false, false),
        (true, 3, false, true),
        (true, 4, true, true),
    ] {
        let what = format!("stream {stream}, stalls after {stalls_after} pieces");
        let engine = Scripted::start(&["m"]).await;
        let fleet = fleet(&[engine.url()], 1, |_| {}).await;
        let waiting = client(&fleet, stream, stalls_after);
        engine.until_stalled(1).await;
        if reports {
            until_counted(&fleet, "kvroute_router_reuse_reports_total", &[("outcome", "reported")], 1.0)
                .await;
        }
        drop(waiting);
        let scrape = fleet.at_rest().await;
        let ended = if completes { [1, 0, 0] } else { [0, 0, 1] };
        assert_eq!(of_attempts(&scrape), ended, "{what}");
        assert_eq!(of_requests(&scrape, "m", if completes { "completed" } else { "cancelled" }), 1, "{what}");
        let told = [of_reports(&scrape, "reported"), of_reports(&scrape, "unfinished")];
        assert_eq!(told, if reports { [1, 0] } else { [0, 1] }, "{what}");
        let reused = scrape.count("dynamo_component_router_kv_worker_reused_tokens_total", &[]);
        assert_eq!(reused, if reports { REUSED } else { 0 }, "{what}");
        assert_eq!(
            scrape.count("dynamo_component_router_requests_total", &[]),
            1,
            "{what}: it was dispatched"
        );
        fleet.stop().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_the_line_has_no_attempt() {
    let engine = Scripted::start(&["m"]).await;
    let fleet = fleet(&[engine.url()], 1, |config| {
        config.router.pools[0].queue.threshold = BusyThreshold::Tokens(Tokens::ZERO);
    })
    .await;
    let busy = client(&fleet, true, 0);
    engine.until_stalled(1).await;
    let waiting = client(&fleet, true, 0);
    until_counted(&fleet, PENDING, &[("model", "m")], 1.0).await;
    drop(waiting);
    until_counted(&fleet, PENDING, &[("model", "m")], 0.0).await;
    drop(busy);
    let scrape = fleet.at_rest().await;
    assert_eq!(of_attempts(&scrape), [0, 0, 1]);
    assert_eq!(of_requests(&scrape, "m", "cancelled"), 2);
    fleet.stop().await;
}

/// The worker's machine takes no more connections, so that the router waits for one.
#[tokio::test]
async fn a_client_that_leaves_while_its_worker_is_dialled_has_an_attempt_that_closes() {
    let engine = Scripted::start(&["m"]).await;
    let address: SocketAddr = engine.name.parse().unwrap();
    let fleet = fleet(&[engine.url()], 1, |_| {}).await;
    drop(engine);
    let (_listener, _queued) = deaf(address).await;
    let waiting = client(&fleet, true, 0);
    until_counted(&fleet, "dynamo_component_router_requests_started_total", &[], 1.0).await;
    drop(waiting);
    let scrape = fleet.at_rest().await;
    assert_eq!((of_attempts(&scrape), of_reports(&scrape, "unfinished")), ([0, 0, 1], 1));
    assert_eq!(of_requests(&scrape, "m", "cancelled"), 1);
    fleet.stop().await;
}

/// A socket whose queue of connections is full: nobody is answered who dials it.
async fn deaf(address: SocketAddr) -> (tokio::net::TcpListener, Vec<TcpStream>) {
    let listener = loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        if socket.bind(address).is_ok() {
            break socket.listen(1).unwrap();
        }
        tokio::task::yield_now().await;
    };
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await
    {
        queued.push(stream);
    }
    (listener, queued)
}

#[tokio::test]
async fn a_client_that_leaves_before_anything_is_known_is_counted_all_the_same() {
    let nobody = kept_address();
    let fleet = fleet(&[format!("http://{nobody}")], 0, |_| {}).await;
    let waiting = client(&fleet, false, 0);
    until_counted(&fleet, PENDING, &[("model", "unknown")], 1.0).await;
    drop(waiting);
    let mut half = TcpStream::connect(fleet.server.data_address()).await.unwrap();
    let head = format!("POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{\"model\":");
    half.write_all(head.as_bytes()).await.unwrap();
    drop(half);
    let cancelled = [("model", "unknown"), ("outcome", "cancelled")];
    until_counted(&fleet, "kvroute_requests_total", &cancelled, 2.0).await;
    fleet.at_rest().await;
    fleet.stop().await;
}
