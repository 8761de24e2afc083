//! What the lines look like on standard error of the real binary.

use std::process::Command;
use std::time::Duration;

use kvroute_sim::SimConfig;
use kvroute_testkit::{Client, RunningProcess, engine, kept_address};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::watched::{CHAT, chat};

/// What a client would have to send for a line of its own, and for the terminal's obedience.
const EVIL: &str =
    "gpt\n2026-01-01T00:00:00Z  INFO kvroute::access: request outcome=\"completed\"\r\u{1b}[2J\u{9b}31m";

/// The log of a router that was started with these words, served one chat, and refused one for an evil model.
async fn log_of(words: &[&str]) -> String {
    let engine = engine(SimConfig::default()).await;
    // Not every log announces the address, so it is chosen here.
    let address = kept_address().to_string();
    let binary = env!("CARGO_BIN_EXE_kvroute");
    let common = ["-u", "RUST_LOG", binary, "serve", "--admin-listen", "127.0.0.1:0", "--listen", &address];
    let mut router =
        RunningProcess::start("env", &[&common, &["--worker", &engine.url()][..], words].concat());
    while TcpStream::connect(&address).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    let client = Client::default();
    client.until(&format!("http://{address}/ready"), |answer| answer.status == 200).await;
    let url = format!("http://{address}{CHAT}");
    let first = client.post_with(&url, &[("x-request-id", "the \"first\" one")], &chat("hello")).await;
    let mut evil = chat("hello");
    evil["model"] = json!(EVIL);
    let second = client.post_with(&url, &[("x-request-id", "the second one")], &evil).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 404));
    drop(client);
    let stopped = Command::new("kill").args(["-TERM", &router.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert!(router.ended().await.success(), "{}", router.log());
    engine.stop().await;
    router.log()
}

#[tokio::test]
async fn as_text_each_is_one_line_whatever_a_client_calls_its_model() {
    let log = log_of(&[]).await;
    let lines: Vec<_> = log.lines().filter(|line| line.contains(" kvroute::access: request ")).collect();
    let [first, second] = lines.as_slice() else { panic!("{log}") };
    assert!(first.contains(r#" request_id="the \"first\" one" "#), "{first}");
    assert!(first.contains(r#" outcome="completed" attempts=1 worker="127.0.0.1:"#), "{first}");
    assert!(first.contains(" status=200 ") && !first.contains(" error="), "{first}");
    let escaped = r#" model="gpt\n2026-01-01T00:00:00Z  INFO kvroute::access: request outcome=\"completed\"\r\u{1b}[2J\u{9b}31m" "#;
    assert!(second.contains(escaped), "{second}");
    assert!(second.contains(r#" outcome="rejected" error="model_not_found" attempts=0 "#), "{second}");
    let is_harmless = |character: char| !character.is_control() || character == '\n';
    assert!(log.chars().all(is_harmless), "{log:?}");
}

#[tokio::test]
async fn as_json_every_line_of_the_log_is_an_object() {
    let log = log_of(&["--set", "log.format=json"]).await;
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "serving" && line["level"] == "INFO"), "{log}");
    let access: Vec<_> = lines.iter().filter(|line| line["target"] == "kvroute::access").collect();
    let [first, second] = access.as_slice() else { panic!("{log}") };
    assert_eq!(first["request_id"], "the \"first\" one");
    assert_eq!((&first["status"], &first["stream"]), (&json!(200), &json!(false)));
    assert!(first["input_tokens"].as_u64() > Some(0) && first["seconds"].as_f64() > Some(0.0), "{first}");
    assert!(first["timestamp"].is_string() && first.get("error").is_none(), "{first}");
    assert_eq!((&second["model"], &second["outcome"]), (&json!(EVIL), &json!("rejected")));
    assert!(second.get("worker").is_none(), "{second}");
}

#[tokio::test]
async fn there_is_none_where_it_is_switched_off_or_filtered_out() {
    let silent = log_of(&["--set", "log.access=false"]).await;
    assert!(silent.contains("serving") && !silent.contains("kvroute::access"), "{silent}");
    let warnings = log_of(&["--log", "warn"]).await;
    assert!(!warnings.contains("kvroute::access"), "{warnings}");
    let only = log_of(&["--log", "warn,kvroute::access=info"]).await;
    assert!(!only.contains("serving"), "{only}");
    assert_eq!(
        only.matches("kvroute::access: request ").count(),
        3,
        "one of them is a client's words: {only}"
    );
}
