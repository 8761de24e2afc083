//! Streams that do not come to their last event.

use kvroute_openai::Endpoint;
use kvroute_sim::{Faults, SimConfig};
use kvroute_testkit::Fleet;
use serde_json::{Value, json};

use crate::asking::{QUESTION, Shape, outcomes, parts};
use crate::scripted::{Conduct, Scripted};

/// The last event of a stream is an error in the words of its endpoint.
fn assert_told(shape: Shape, text: &str, code: &str) {
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    let (name, data) = match last.split_once('\n') {
        Some((name, data)) => (Some(name), data),
        None => (None, last),
    };
    let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    let error = match shape.endpoint {
        Endpoint::ChatCompletions | Endpoint::Completions => {
            assert_eq!(name, None);
            &data["error"]
        }
        Endpoint::Responses => {
            assert_eq!((name, &data["type"]), (Some("event: error"), &json!("error")));
            assert!(data["sequence_number"].is_u64());
            &data
        }
        _ => {
            assert_eq!((name, &data["type"]), (Some("event: error"), &json!("error")));
            assert_eq!(data["error"]["type"], "upstream_error");
            &data["error"]
        }
    };
    assert_eq!(error["code"], code, "{shape:?}: {text}");
    assert!(error["message"].as_str().unwrap().contains("broke in the middle"), "{shape:?}: {text}");
}

fn streams() -> impl Iterator<Item = Shape> {
    Shape::all().into_iter().filter(|shape| shape.stream)
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_in_the_words_of_its_endpoint() {
    let faults = Faults { break_after_chunks: Some(3), ..Faults::default() };
    let fleet = Fleet::start(vec![SimConfig { faults, decode_tps: 500, ..SimConfig::default() }], "kv").await;
    for shape in streams() {
        let answer = shape.ask(&fleet, QUESTION).await;
        assert_told(shape, &answer.text(), "upstream_broke_mid_stream");
    }
    let scrape = fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "failed")]), 4);
    assert_eq!(outcomes(&scrape, "unfinished"), 4);
    fleet.stop().await;
}

/// A proper end of the transfer is no end of the answer.
#[tokio::test]
async fn a_stream_that_ends_without_its_last_event_is_broken() {
    let events = |shape: Shape, is_whole: bool| {
        let (start, last) = match shape.endpoint {
            Endpoint::ChatCompletions => (
                "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
                "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            ),
            Endpoint::Completions => {
                ("data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n", "data: [DONE]\n\n")
            }
            Endpoint::Responses => (
                "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
                "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n",
            ),
            _ => (
                "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
                "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
            ),
        };
        format!("{start}{}", if is_whole { last } else { "" })
    };
    for shape in streams() {
        let worker = Scripted::start(move |_, number| Conduct::Streams(events(shape, number == 0))).await;
        let whole = shape.ask(&worker.fleet, "x").await;
        assert_eq!(whole.text(), events(shape, true));
        let cut = shape.ask(&worker.fleet, "x").await;
        assert_told(shape, &cut.text(), "upstream_broke_mid_stream");
        assert!(cut.text().starts_with(&events(shape, false)));
        let scrape = worker.fleet.at_rest().await;
        let attempts = |outcome| scrape.count("kvroute_attempts_total", &[("outcome", outcome)]);
        assert_eq!((attempts("completed"), attempts("failed")), (1, 1), "{shape:?}");
        worker.fleet.stop().await;
    }
}

/// The engine has said itself what went wrong: that passes as it is, and nothing is added.
#[tokio::test]
async fn an_engines_own_error_event_is_the_end() {
    for (endpoint, event) in [
        (
            Endpoint::Messages,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}\n\n",
        ),
        (Endpoint::Responses, "event: error\ndata: {\"type\":\"error\",\"message\":\"x\"}\n\n"),
        (
            Endpoint::Responses,
            "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{}}}\n\n",
        ),
    ] {
        let shape = Shape { endpoint, stream: true };
        let worker = Scripted::start(move |_, _| Conduct::Streams(event.to_owned())).await;
        assert_eq!(shape.ask(&worker.fleet, "x").await.text(), event);
        let scrape = worker.fleet.at_rest().await;
        assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "failed")]), 1);
        worker.fleet.stop().await;
    }
}

/// A response that failed is told with status 200.
#[tokio::test]
async fn a_whole_response_that_says_it_failed_has_failed() {
    let failed = r#"{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error"},"output":[]}"#;
    let worker = Scripted::start(move |_, _| Conduct::Answers(200, failed.to_owned())).await;
    let answer = Shape { endpoint: Endpoint::Responses, stream: false }.ask(&worker.fleet, "x").await;
    assert_eq!((answer.text().as_str(), parts(&answer).len()), (failed, 1));
    let scrape = worker.fleet.at_rest().await;
    assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "failed")]), 1);
    assert_eq!(scrape.count("kvroute_requests_total", &[("outcome", "failed")]), 1);
    worker.fleet.stop().await;
}
