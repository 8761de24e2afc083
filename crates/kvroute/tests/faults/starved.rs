//! A router that may open no more files: it lives, it says so, blames nobody, and goes on as soon as it may.

use std::path::PathBuf;
use std::time::Duration;

use kvroute_sim::{SimConfig, SimEngine};
use kvroute_testkit::{Answer, Client, Exposition, Ledger, RunningProcess, engine};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::site::COMPLETIONS;

/// Files that the process may open, those of its own included.
const FILES: usize = 64;

/// Clients that ask at the same time, each on a connection that it has.
const CLIENTS: usize = 6;

/// Requests that are to find no socket to a worker before it is over.
const ENOUGH: usize = 60;

/// A router of its own process that may open few files.
struct Starving {
    process: RunningProcess,
    address: String,
    admin: String,
}

// === impl Starving ===

impl Starving {
    async fn start(engines: &[SimEngine], further: &[&str]) -> Self {
        let limited = format!("ulimit -n {FILES}; exec \"$0\" \"$@\"");
        let urls: Vec<_> = engines.iter().map(SimEngine::url).collect();
        let serve = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let program = ["-c", &limited, env!("CARGO_BIN_EXE_kvroute")];
        let workers = urls.iter().flat_map(|url| ["--worker", url.as_str()]);
        let arguments: Vec<_> =
            program.into_iter().chain(serve).chain(workers).chain(further.iter().copied()).collect();
        let mut process = RunningProcess::start("sh", &arguments);
        let address = process.announced("listen").await;
        let admin = format!("http://{}", process.announced("admin").await);
        Client::default().until(&format!("http://{address}/ready"), |answer| answer.status == 200).await;
        Self { process, address, admin }
    }

    fn data(&self) -> String {
        format!("http://{}{COMPLETIONS}", self.address)
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(PathBuf::from(format!("/proc/{}/fd", self.process.id()))).unwrap().count()
    }

    /// Connections that take all that it may open.
    async fn starved(&self) -> Vec<TcpStream> {
        let mut idle = Vec::new();
        while self.open_files() < FILES {
            idle.push(TcpStream::connect(&self.address).await.unwrap());
        }
        idle
    }
}

fn question(max_tokens: u32) -> Value {
    json!({"model": "sim", "prompt": "hello", "max_tokens": max_tokens, "ignore_eos": true})
}

/// Whatever is wrong with any worker, as the admin plane has it.
async fn blamed(admin: &Client, router: &Starving) -> Option<String> {
    let list = admin.get(&format!("{}/api/workers", router.admin)).await.json();
    let workers = list.as_array().unwrap();
    workers.iter().find(|worker| worker["state"] != "ready").map(Value::to_string)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_without_a_free_file_serves_again_once_there_is_one() {
    let engines = [engine(SimConfig::default()).await];
    let router = Starving::start(&engines, &[]).await;
    let (client, data) = (Client::default(), router.data());
    client.get(&format!("http://{}/live", router.address)).await;
    client.scrape(&router.admin).await;

    let idle = router.starved().await;
    // On a connection that it had before. It may have one to the engine, too, or need one.
    let answer = client.post(&data, &question(2)).await;
    assert!(answer.status == 200 || !answer.error()["message"].is_null(), "{}", answer.text());

    drop(idle);
    let fresh = Client::default();
    fresh
        .until(&format!("{}/api/workers", router.admin), |answer| answer.json()[0]["state"] == "ready")
        .await;
    let answer = fresh.post(&data, &question(2)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!router.process.log().contains("panicked"), "{}", router.process.log());
    for engine in engines {
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_requests_are_told_of_it_and_no_worker_is_blamed() {
    let engines = [engine(SimConfig::default()).await, engine(SimConfig::default()).await];
    let strict = [
        "--set",
        "pool.breaker.failures=1",
        "--set",
        "pool.health.interval=50ms",
        "--set",
        "pool.health.failures=1",
    ];
    let router = Starving::start(&engines, &strict).await;
    let (admin, data) = (Client::default(), router.data());
    let clients: Vec<_> = (0..CLIENTS).map(|_| Client::default()).collect();
    let (mut told, mut answered) = (0, 0);
    for client in &clients {
        assert_eq!(client.post(&data, &question(2)).await.status, 200);
        answered += 1;
    }
    admin.scrape(&router.admin).await;

    let idle = router.starved().await;
    // Whoever waits takes each file that becomes free.
    let mut waiting = Vec::new();
    for _ in 0..FILES {
        waiting.push(TcpStream::connect(&router.address).await.unwrap());
    }
    while told < ENOUGH {
        let mut asked = JoinSet::new();
        for client in clients.clone() {
            let data = data.clone();
            asked.spawn(async move { client.post(&data, &question(20)).await });
        }
        while let Some(answer) = asked.join_next().await {
            match is_told(&answer.unwrap()) {
                true => told += 1,
                false => answered += 1,
            }
        }
        assert_eq!(blamed(&admin, &router).await, None, "{}", router.process.log());
    }
    router.process.until_logged(|log| log.contains("Too many open files")).await;

    drop((idle, waiting, clients));
    let fresh = Client::default();
    let at_rest =
        |answer: &Answer| Ledger::after_departures(&Exposition::parse(&answer.text())).faults().is_empty();
    let scrape = fresh.until(&format!("{}/metrics", router.admin), at_rest).await;
    let scrape = Exposition::parse(&scrape.text());
    let ended = |outcome| scrape.count("kvroute_requests_total", &[("outcome", outcome)]);
    assert_eq!((ended("completed"), ended("failed")), (answered, told as u64));
    assert_eq!(scrape.count("kvroute_requests_total", &[]), answered + told as u64);
    assert_eq!(fresh.post(&data, &question(2)).await.status, 200);
    assert!(!router.process.log().contains("panicked"), "{}", router.process.log());
    for engine in engines {
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_cannot_be_asked_how_it_is_is_not_blamed() {
    let engines = [engine(SimConfig::default()).await];
    // Less often than an idle connection is kept, so that each question needs a new one.
    let rare = ["--set", "pool.health.interval=4500ms", "--set", "pool.health.failures=1"];
    let router = Starving::start(&engines, &rare).await;
    let admin = Client::default();
    admin.scrape(&router.admin).await;
    let _idle = router.starved().await;
    let mut waiting = Vec::new();
    for _ in 0..FILES {
        waiting.push(TcpStream::connect(&router.address).await.unwrap());
    }
    while !router.process.log().contains("a worker's health is not known") {
        assert_eq!(blamed(&admin, &router).await, None, "{}", router.process.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(blamed(&admin, &router).await, None, "{}", router.process.log());
    for engine in engines {
        engine.stop().await;
    }
}

/// Whether it is the answer of a router without a free file; the engine's otherwise.
fn is_told(answer: &Answer) -> bool {
    match answer.status.as_u16() {
        200 => false,
        503 => {
            assert_eq!(answer.error()["code"], "router_exhausted", "{}", answer.text());
            assert!(answer.header("retry-after").is_some());
            true
        }
        _ => panic!("{}", answer.text()),
    }
}
