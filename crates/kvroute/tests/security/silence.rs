//! What is never written down: prompts, keys, tokens and what protects them, whatever the log is told to show.

use std::path::Path;

use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, RunningProcess, engine, kept_address};
use serde_json::json;
use tokio::net::TcpStream;

/// Stands in every prompt, and nowhere else.
const MARKER: &str = "zanzibar-umbrella-quixotic";
const KEY: &str = "sk-a-key-of-a-client-in-this-test";
/// The SHA-256 of that key.
const DIGEST: &str = "2310ce9852fccd9ee986b29296c3023b8573949c77433c76fbc77a2314fcde75";
const TOKEN: &str = "an-admin-token-of-this-test";

struct Router {
    process: RunningProcess,
    data: String,
    admin: String,
    bearer: [(&'static str, String); 1],
}

/// A router that logs everything it can, with keys and a token in `folder`.
async fn router(folder: &Path, worker: &str) -> Router {
    std::fs::write(folder.join("keys"), format!("sha256:{DIGEST} tenant=red trusted\n")).unwrap();
    std::fs::write(folder.join("token"), TOKEN).unwrap();
    let [data, admin] = [kept_address(), kept_address()].map(|address| address.to_string());
    let file = folder.join("kvroute.toml");
    let text = format!(
        "[server]\nlisten = \"{data}\"\nadmin_listen = \"{admin}\"\napi_keys_file = {keys:?}\nadmin_token_file = {token:?}\n\
         [cluster]\nnats = \"nats://somebody:a-password@127.0.0.1:1\"\n[[pool]]\n[[pool.worker]]\nurl = \"{worker}\"\n",
        keys = folder.join("keys"),
        token = folder.join("token"),
    );
    std::fs::write(&file, text).unwrap();
    let binary = env!("CARGO_BIN_EXE_kvroute");
    let words = ["-u", "RUST_LOG", binary, "--log", "trace", "serve", "--config", file.to_str().unwrap()];
    let process = RunningProcess::start("env", &words);
    while TcpStream::connect(&data).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let bearer = [("authorization", format!("Bearer {TOKEN}"))];
    Router { process, data: format!("http://{data}"), admin: format!("http://{admin}"), bearer }
}

async fn talk(client: &Client, router: &Router) {
    let key = format!("Bearer {KEY}");
    let with_key = [("authorization", key.as_str())];
    client.until(&format!("{}/ready", router.data), |answer| answer.status == 200).await;
    for stream in [false, true] {
        let chat = json!({"model": "sim", "messages": [{"role": "user", "content": MARKER}], "max_tokens": 2, "stream": stream});
        let answer =
            client.post_with(&format!("{}/v1/chat/completions", router.data), &with_key, &chat).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = json!({"model": "sim", "prompt": MARKER, "max_tokens": 2, "stream": stream});
        let answer = client.post_with(&format!("{}/v1/completions", router.data), &with_key, &text).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for (body, status) in [
        (json!({"model": "none", "prompt": MARKER}), 404),
        (json!({"model": "sim", "prompt": {"text": MARKER}}), 400),
        (json!({"model": "sim", "prompt": MARKER, "max_tokens": MARKER}), 400),
    ] {
        let answer = client.post_with(&format!("{}/v1/completions", router.data), &with_key, &body).await;
        assert_eq!(answer.status, status, "{}", answer.text());
    }
    let broken = format!("{{\"model\": \"sim\", \"prompt\": \"{MARKER}\", {MARKER}");
    let answer = client.ask_as("POST", &format!("{}/v1/completions", router.data), &with_key, &broken).await;
    assert_eq!(answer.status, 400);
    let answer =
        client.get_with(&format!("{}/v1/models", router.data), &[("authorization", "Bearer wrong")]).await;
    assert_eq!(answer.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_the_log_at_its_loudest_nor_the_admin_plane_tells_a_prompt_or_a_secret() {
    let engine = engine(SimConfig::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let mut router = router(folder.path(), &engine.url()).await;
    let client = Client::default();
    talk(&client, &router).await;
    let bearer: Vec<_> = router.bearer.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut told = String::new();
    for path in ["/api/config", "/api/workers", "/api/decisions", "/api/funnel", "/metrics"] {
        let answer = client.get_with(&format!("{}{path}", router.admin), &bearer).await;
        assert_eq!(answer.status, 200, "{path}");
        told.push_str(&answer.text());
    }
    let shown = client.get_with(&format!("{}/api/config", router.admin), &bearer).await.json();
    assert_eq!(shown["pool"][0]["worker"][0]["url"], engine.url().trim_end_matches('/'));
    assert_eq!(shown["server"]["limits"]["connections"], 10_000, "what nobody set is shown with its default");
    assert_eq!(shown["cluster"]["nats"], "nats://***@127.0.0.1:1");
    let stopped =
        std::process::Command::new("kill").args(["-TERM", &router.process.id().to_string()]).status();
    assert!(stopped.unwrap().success());
    assert!(router.process.ended().await.success());
    let log = router.process.log();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "the log was not at its loudest: {log}");
    for (name, secret) in [("prompt", MARKER), ("key", KEY), ("token", TOKEN), ("password", "a-password")] {
        for (place, text) in [("log", &log), ("admin plane", &told)] {
            let found = text.lines().find(|line| line.contains(secret));
            assert_eq!(found, None, "the {place} tells the {name}");
        }
    }
    engine.stop().await;
}
