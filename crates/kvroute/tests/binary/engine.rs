//! `kvroute engine`: a simulated engine as a process.

use serde_json::Value;

use super::process::{Running, failure, field, http};

fn start() -> (Running, String) {
    let engine = Running::start(&["engine", "--listen", "127.0.0.1:0", "--model", "m", "--prefill-tps", "0"]);
    let url = field(&engine.line_with("serving"), "url").to_owned();
    (engine, url)
}

#[test]
fn an_engine_answers_counts_and_ends_in_good_order() {
    let (engine, url) = start();
    let chat = r#"{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"How do you start?"}]}"#;
    let (status, body) = http("POST", &format!("{url}/v1/chat/completions"), chat);
    assert_eq!(status, 200, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["usage"]["completion_tokens"], 3);
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty());

    let (_, stats) = http("GET", &format!("{url}/stats"), "");
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["requests"], 1);
    assert_eq!(stats["prompt_tokens"], answer["usage"]["prompt_tokens"]);

    engine.terminate();
    assert!(engine.wait().success());
}

#[test]
fn a_port_in_use_is_named() {
    let (_engine, url) = start();
    let address = url.strip_prefix("http://").unwrap();
    let (code, message) = failure(&["engine", "--listen", address]);
    assert_eq!(code, 1);
    assert!(message.contains(&format!("cannot listen on {address}")), "{message}");
}
