//! A disk that takes nothing more: what was kept stays, whole, and the router serves.

use std::path::Path;
use std::process::Command;

use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, RunningProcess, engine};
use serde_json::json;

use super::site::COMPLETIONS;

/// From here on every byte that is written to a file is refused, as by a full disk.
const FULL: &str = "trap '' XFSZ; ulimit -f 0; ";

/// A router that keeps its history in a file, serves one prompt and ends; gives its log.
async fn run(limits: &str, worker: &str, file: &Path, prompt: &[u32]) -> String {
    let script = format!("{limits}exec \"$0\" \"$@\"");
    let snapshot = format!("pool.history.snapshot={}", file.display());
    let arguments = [
        "-c",
        &script,
        env!("CARGO_BIN_EXE_kvroute"),
        "serve",
        "--worker",
        worker,
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "127.0.0.1:0",
        "--set",
        "pool.history.enabled=true",
        "--set",
        &snapshot,
    ];
    let mut router = RunningProcess::start("sh", &arguments);
    let data = format!("http://{}", router.announced("listen").await);
    let client = Client::default();
    client.until(&format!("{data}/ready"), |answer| answer.status == 200).await;
    let body = json!({"model": "sim", "prompt": prompt, "max_tokens": 2});
    let answer = client.post(&format!("{data}{COMPLETIONS}"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    drop(client);
    let stopped = Command::new("kill").args(["-TERM", &router.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert!(router.ended().await.success(), "{}", router.log());
    assert!(!router.log().contains("panicked"), "{}", router.log());
    router.log()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_cannot_be_written_leaves_the_one_before_it_whole() {
    let engine = engine(SimConfig::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history.snapshot");
    let prompts = [300, 600].map(|first: u32| (first..first + 100).collect::<Vec<_>>());

    run("", &engine.url(), &file, &prompts[0]).await;
    let kept = std::fs::read(&file).unwrap();
    let log = run(FULL, &engine.url(), &file, &prompts[1]).await;
    assert!(log.contains("history snapshot cannot be written"), "{log}");
    assert!(std::fs::read(&file).unwrap() == kept, "the file is another one");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a part of the next one stays behind");

    let log = run("", &engine.url(), &file, &prompts[0]).await;
    assert!(log.contains("history snapshot read"), "{log}");
    engine.stop().await;
}

#[tokio::test]
async fn a_device_is_no_place_to_keep_anything() {
    let config = |_: &[String]| {
        let mut config = kvroute_testkit::server_config(&["http://127.0.0.1:1".to_owned()], "kv");
        config.router.pools[0].history.enabled = true;
        config.router.pools[0].history.snapshot = Some("/dev/full".into());
        config
    };
    let error = kvroute_server::Server::start(config(&[])).await.unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("no regular file"), "{error}");
}
