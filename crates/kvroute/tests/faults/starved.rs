//! A router that may open no more files: it lives, it says so, and goes on as soon as it may.

use std::path::PathBuf;

use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, RunningProcess, engine};
use serde_json::json;
use tokio::net::TcpStream;

use super::site::COMPLETIONS;

/// Files that the process may open, those of its own included.
const FILES: usize = 64;

fn open_files(process: &RunningProcess) -> usize {
    std::fs::read_dir(PathBuf::from(format!("/proc/{}/fd", process.id()))).unwrap().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_without_a_free_file_serves_again_once_there_is_one() {
    let engine = engine(SimConfig::default()).await;
    let limited = format!("ulimit -n {FILES}; exec \"$0\" \"$@\"");
    let url = engine.url();
    let serve = ["serve", "--worker", &url, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let arguments = [&["-c", &limited, env!("CARGO_BIN_EXE_kvroute")][..], &serve].concat();
    let mut router = RunningProcess::start("sh", &arguments);
    let address = router.announced("listen").await;
    let admin = format!("http://{}", router.announced("admin").await);
    let (client, data) = (Client::default(), format!("http://{address}"));
    client.until(&format!("{data}/ready"), |answer| answer.status == 200).await;
    client.scrape(&admin).await;

    let mut idle = Vec::new();
    while open_files(&router) < FILES {
        idle.push(TcpStream::connect(&address).await.unwrap());
    }
    // On a connection that it had before. It may have one to the engine, too, or need one.
    let body = json!({"model": "sim", "prompt": "hello", "max_tokens": 2});
    let answer = client.post(&format!("{data}{COMPLETIONS}"), &body).await;
    assert!(answer.status == 200 || !answer.error()["message"].is_null(), "{}", answer.text());

    drop(idle);
    let fresh = Client::default();
    fresh.until(&format!("{admin}/api/workers"), |answer| answer.json()[0]["state"] == "ready").await;
    let answer = fresh.post(&format!("{data}{COMPLETIONS}"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(!router.log().contains("panicked"), "{}", router.log());
    engine.stop().await;
}
