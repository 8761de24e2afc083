//! SIGTERM on the real binary: not ready at once, running streams end properly, then the process ends with 0.

use std::process::Command;

use http_body_util::BodyExt;
use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, RunningProcess, engine};
use serde_json::json;

#[tokio::test]
async fn a_stream_that_runs_at_the_stop_comes_to_its_end() {
    let engine = engine(SimConfig { decode_tps: 40, ..SimConfig::default() }).await;
    let url = engine.url();
    let arguments = ["serve", "--worker", &url, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let mut router = RunningProcess::start(env!("CARGO_BIN_EXE_kvroute"), &arguments);
    let data = format!("http://{}", router.announced("listen").await);
    let client = Client::default();
    client.until(&format!("{data}/ready"), |answer| answer.status == 200).await;

    let body = json!({
        "model": "sim", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 40, "stream": true,
    });
    let mut stream = client.open(&format!("{data}/v1/chat/completions"), &body).await.into_body();
    let mut text = String::new();
    while !text.contains("content\":\" ") {
        let frame = stream.frame().await.unwrap().unwrap();
        text.push_str(&String::from_utf8_lossy(frame.data_ref().unwrap()));
    }
    let stopped = Command::new("kill").args(["-TERM", &router.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    while let Some(frame) = stream.frame().await {
        text.push_str(&String::from_utf8_lossy(frame.unwrap().data_ref().unwrap()));
    }
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    assert_eq!(router.ended().await.code(), Some(0), "{}", router.log());
    engine.stop().await;
}
