//! Usage that is asked for where the client did not, of engines that do not want to be asked.

use kvroute_openai::Endpoint;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::{CapturedLog, Fleet};
use serde_json::{Value, json};

use crate::asking::outcomes;
use crate::scripted::{Conduct, Scripted};

const CHAT: &str = Endpoint::ChatCompletions.path();

fn chat(text: &str) -> Value {
    json!({"model": "sim", "messages": [{"role": "user", "content": text}], "max_tokens": 3, "stream": true})
}

fn is_injected(body: &str) -> bool {
    body.contains("include_usage")
}

#[tokio::test]
async fn an_engine_that_refuses_the_field_is_asked_again_without_it_and_then_no_more() {
    let log = CapturedLog::start();
    let faults = Faults { refuse_stream_options: true, ..Faults::default() };
    let fleet = Fleet::start(vec![SimConfig { faults, ..SimConfig::default() }], "kv").await;
    for _ in 0..3 {
        let answer = fleet.client.post(&fleet.data(CHAT), &chat("hello")).await;
        assert!(answer.status == 200 && answer.text().contains("[DONE]"), "{}", answer.text());
        assert!(!answer.text().contains("usage"), "{}", answer.text());
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "completed")]), 3);
    assert_eq!(scrape.count("kvroute_attempts_total", &[]), 3, "asking again is no further attempt");
    assert_eq!(scrape.count("dynamo_component_router_requests_total", &[]), 3);
    assert_eq!(outcomes(&scrape, "missing"), 3);
    assert_eq!(fleet.engines[0].stats().requests, 3);
    let worker = fleet.engines[0].address().to_string();
    let told = log
        .entries(|entry| entry.message.contains("refuses stream_options") && entry.field("worker") == worker);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(!told[0].field("remedy").is_empty() && told[0].field("lost").contains("reused tokens"));

    // Its client asked itself, and gets what the engine says.
    let mut body = chat("hello");
    body["stream_options"] = json!({"include_usage": true});
    let answer = fleet.client.post(&fleet.data(CHAT), &body).await;
    assert_eq!((answer.status.as_u16(), &answer.error()["param"]), (400, &json!("body.stream_options")));
    fleet.stop().await;
}

/// A scripted worker whose refusal has this status and text.
async fn strict(status: u16, text: &'static str) -> Scripted {
    Scripted::start(move |body, _| match body.get("stream_options") {
        Some(_) => Conduct::Answers(status, text.to_owned()),
        None => Conduct::Streams("data: [DONE]\n\n".to_owned()),
    })
    .await
}

#[tokio::test]
async fn what_is_remembered_is_sent_once() {
    for (status, text) in [
        (400, r#"{"error":{"message":"Unknown field: Stream_Options"}}"#),
        (422, r#"{"detail":[{"type":"extra_forbidden","loc":["body"]}]}"#),
        (400, "unexpected keyword"),
        (422, r#"{"message":"include_usage is not supported"}"#),
    ] {
        let worker = strict(status, text).await;
        for _ in 0..3 {
            let answer = worker.fleet.client.post(&worker.fleet.data(CHAT), &chat("x")).await;
            assert_eq!((answer.status.as_u16(), answer.text().as_str()), (200, "data: [DONE]\n\n"), "{text}");
        }
        let asked: Vec<_> = worker.asked().iter().map(|body| is_injected(body)).collect();
        assert_eq!(asked, [true, false, false, false], "{text}");
        assert_eq!(worker.asked()[1], chat("x").to_string(), "the client's own bytes");
        worker.fleet.stop().await;
    }
}

/// A client's own mistake must not cost its worker the reports of all others.
#[tokio::test]
async fn a_request_that_is_wrong_in_itself_teaches_nothing() {
    let wrong = r#"{"error":{"message":"unexpected value for tools"}}"#;
    let script = move |body: &Value, _: usize| match body.get("tools") {
        Some(_) => Conduct::Answers(400, wrong.to_owned()),
        None => Conduct::Streams("data: [DONE]\n\n".to_owned()),
    };
    let worker = Scripted::start(script).await;
    let mut body = chat("x");
    body["tools"] = json!([{"x": 1}]);
    let answer = worker.fleet.client.post(&worker.fleet.data(CHAT), &body).await;
    assert_eq!((answer.status.as_u16(), answer.text().as_str()), (400, wrong));
    worker.fleet.client.post(&worker.fleet.data(CHAT), &chat("x")).await;
    let asked: Vec<_> = worker.asked().iter().map(|body| is_injected(body)).collect();
    assert_eq!(asked, [true, false, true]);
    worker.fleet.stop().await;
}

/// Any other refusal is the client's answer at once.
#[tokio::test]
async fn a_refusal_that_does_not_speak_of_fields_is_passed_on() {
    for (status, text) in [(400, "prompt is too long"), (404, "no stream_options here"), (500, "extra")] {
        let worker = Scripted::start(move |_, _| Conduct::Answers(status, text.to_owned())).await;
        let answer = worker.fleet.client.post(&worker.fleet.data(CHAT), &chat("x")).await;
        assert_eq!((answer.status.as_u16(), answer.text().as_str()), (status, text));
        assert_eq!(worker.asked().len(), 1, "{text}");
        worker.fleet.stop().await;
    }
}

#[tokio::test]
async fn nothing_is_injected_where_it_is_not_needed() {
    let worker = Scripted::start(|_, _| Conduct::Answers(200, "{}".to_owned())).await;
    let asking = [
        (CHAT, json!({"messages": [{"role": "user", "content": "x"}]})),
        ("/v1/responses", json!({"input": "x", "stream": true})),
        ("/v1/messages", json!({"messages": [], "stream": true})),
    ];
    for (path, body) in &asking {
        worker.fleet.client.post(&worker.fleet.data(path), body).await;
    }
    let sent: Vec<_> = asking.iter().map(|(_, body)| body.to_string()).collect();
    assert_eq!(worker.asked(), sent);
    worker.fleet.stop().await;
}
