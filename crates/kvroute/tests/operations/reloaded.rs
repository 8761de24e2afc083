//! A configuration that changes under a running router, with the real binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use http::Method;
use kvroute_sim::{SimConfig, SimEngine};
use kvroute_testkit::{Client, Exposition, RunningProcess, engine};
use serde_json::Value;
use tempfile::TempDir;

use super::caller::until;
use super::load::Load;

/// A router that was started with a file.
struct Router {
    process: RunningProcess,
    file: PathBuf,
    data: String,
    admin: String,
    client: Client,
    _folder: TempDir,
}

// === impl Router ===

impl Router {
    async fn start(config: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kvroute.toml");
        std::fs::write(&file, config).unwrap();
        let named = file.to_str().unwrap();
        let any_port = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let arguments: Vec<_> =
            ["serve", "--config", named].iter().chain(&any_port).chain(flags).copied().collect();
        let mut process = RunningProcess::start(env!("CARGO_BIN_EXE_kvroute"), &arguments);
        let data = format!("http://{}", process.announced("listen").await);
        let admin = format!("http://{}", process.announced("admin").await);
        let client = Client::default();
        client.until(&format!("{data}/ready"), |answer| answer.status == 200).await;
        Self { process, file, data, admin, client, _folder: folder }
    }

    fn write(&self, config: &str) {
        std::fs::write(&self.file, config).unwrap();
    }

    fn hang_up(&self) {
        let sent = Command::new("kill").args(["-HUP", &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    async fn metrics(&self) -> Exposition {
        self.client.scrape(&self.admin).await
    }

    async fn reloads(&self, outcome: &str) -> u64 {
        self.metrics().await.count("kvroute_config_reloads_total", &[("outcome", outcome)])
    }

    async fn worker(&self, url: &str) -> Value {
        let workers = self.client.get(&format!("{}/api/workers", self.admin)).await.json();
        let is_meant = |worker: &&Value| worker["url"] == url;
        workers.as_array().unwrap().iter().find(is_meant).cloned().unwrap_or(Value::Null)
    }
}

/// A pool of these, with a few more keys of its own.
fn config(engines: &[&SimEngine], keys: &str) -> String {
    let workers: String =
        engines.iter().map(|engine| format!("[[pool.worker]]\nurl = \"{}\"\n", engine.url())).collect();
    format!("[[pool]]\nmodel = \"sim\"\npolicy = \"round-robin\"\n{keys}{workers}")
}

/// What `kvroute check` says of a file.
fn check(file: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kvroute")).arg("check").arg(file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    text.trim().trim_start_matches("error: ").to_owned()
}

#[tokio::test]
async fn workers_follow_the_file_and_no_request_is_lost() {
    let (first, second) = (engine(SimConfig::default()).await, engine(SimConfig::default()).await);
    let router = Router::start(&config(&[&first], ""), &[]).await;
    let load = Load::on(vec![router.data.clone()]);
    router.write(&config(&[&first, &second], ""));
    until("the worker of the new file serves", async || second.stats().requests > 0).await;
    router.write(&config(&[&second], ""));
    until("the other one has left", async || router.worker(&first.url()).await.is_null()).await;
    load.more(8).await;
    load.end().await;
    assert_eq!((router.reloads("applied").await, router.reloads("refused").await), (2, 0));
    drop(router);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_file_with_a_mistake_is_refused_whole_with_the_words_of_check() {
    let (first, second) = (engine(SimConfig::default()).await, engine(SimConfig::default()).await);
    let router = Router::start(&config(&[&first], ""), &[]).await;
    router.write(&config(&[&second], "migratoins = 0\n"));
    until("it is refused", async || router.reloads("refused").await == 1).await;
    let said = check(&router.file);
    assert!(said.contains("migratoins"), "{said}");
    let escaped = said.replace('"', "\\\"");
    router.process.until_logged(|log| log.contains(&escaped) || log.contains(&said)).await;
    assert_eq!(router.worker(&first.url()).await["state"], "ready");
    assert!(router.worker(&second.url()).await.is_null(), "nothing of it counts");
    router.write(&config(&[&second], "migrations = 0\n"));
    until("the mended file counts", async || router.worker(&first.url()).await.is_null()).await;
    drop(router);
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn what_cannot_change_is_named_and_flags_go_on_beating_the_file() {
    let engine = engine(SimConfig::default()).await;
    let router =
        Router::start(&config(&[&engine], "aliases = [\"old\"]\n"), &["--set", "pool.migrations=0"]).await;
    let asked = async |model: &str| {
        let body = serde_json::json!({
            "model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1,
        });
        router.client.post(&format!("{}/v1/chat/completions", router.data), &body).await.status.as_u16()
    };
    assert_eq!((asked("old").await, asked("new").await), (200, 404));
    let keys = "aliases = [\"new\"]\nmigrations = 9\nobserve = true\n[pool.index]\nbytes = \"16MiB\"\n";
    router.write(&format!("[server]\ndrain = \"7s\"\n{}", config(&[&engine], keys)));
    router.hang_up();
    until("it is taken over", async || router.reloads("applied").await > 0).await;
    assert_eq!((asked("old").await, asked("new").await), (404, 200));
    let log = router.process.until_logged(|log| !taken_over(log).is_empty()).await;
    for key in ["pool.observe (of sim)", "pool.index (of sim)", "server.drain"] {
        let is_named = |line: &str| line.contains(key) && line.contains("until the router is restarted");
        assert!(log.lines().any(is_named), "{key} is not named in {log}");
    }
    assert!(!log.contains("pool.migrations"), "the flag says what it is: {log}");
    let answer = super::caller::Caller::new()
        .ask(Method::GET, &format!("{}/api/workers", router.admin), &Value::Null)
        .await
        .unwrap();
    assert_eq!(answer.json()[0]["state"], "ready", "the worker was never touched");
    drop(router);
    engine.stop().await;
}

/// The line that tells what became of a configuration.
fn taken_over(log: &str) -> Vec<&str> {
    log.lines().filter(|line| line.contains("configuration taken over")).collect()
}

#[tokio::test]
async fn settings_of_the_server_and_files_beside_the_configuration_are_named_when_they_change() {
    let engine = engine(SimConfig::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let (first, second) = ("a".repeat(64), "b".repeat(64));
    std::fs::write(&keys, format!("sha256:{first}\n")).unwrap();
    let with =
        |limits: &str| format!("[server]\napi_keys_file = {keys:?}\n{limits}\n{}", config(&[&engine], ""));
    let router = Router::start(&with("max_body = \"1MiB\""), &[]).await;
    let taken = async |times: usize, change: &dyn Fn()| {
        change();
        router.hang_up();
        until("it is taken over", async || taken_over(&router.process.log()).len() == times).await;
        let log = router.process.log();
        taken_over(&log)[times - 1].to_owned()
    };
    let line = taken(1, &|| router.write(&with("max_body = \"2MiB\"\nlimits = { head = \"7s\" }"))).await;
    assert!(line.contains("changed=[\"server.limits.head\", \"server.max_body\"]"), "{line}");
    let line = taken(2, &|| std::fs::write(&keys, format!("sha256:{second}\n")).unwrap()).await;
    assert!(line.contains("changed=[\"server.api_keys_file (what is in the file)\"]"), "{line}");
    let line = taken(3, &|| ()).await;
    assert!(line.contains("changed=[]"), "{line}");
    let log = router.process.log();
    assert!(!log.contains(&first[..16]) && !log.contains(&second[..16]), "a key is told: {log}");
    drop(router);
    engine.stop().await;
}

/// Longer than it takes to find a change by looking at the files.
const SEVERAL_LOOKS: Duration = Duration::from_millis(3500);

#[tokio::test]
async fn a_file_that_changed_right_before_a_hang_up_was_taken_over_twice() {
    let engine = engine(SimConfig::default()).await;
    let router = Router::start(&config(&[&engine], ""), &[]).await;
    router.write(&config(&[&engine], "migrations = 3\n"));
    router.hang_up();
    until("it is taken over", async || router.reloads("applied").await > 0).await;
    tokio::time::sleep(SEVERAL_LOOKS).await;
    let log = router.process.log();
    assert_eq!(taken_over(&log).len(), 1, "{:?}", taken_over(&log));
    drop(router);
    engine.stop().await;
}
