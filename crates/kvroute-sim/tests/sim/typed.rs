//! `/v1/responses` and `/v1/messages`: vLLM's shapes, and the same prompt as a chat of the same words.

use hyper::StatusCode;
use kvroute_sim::SimConfig;
use serde_json::{Value, json};

use crate::http::{Answer, CHAT, post, start};

const RESPONSES: &str = "/v1/responses";
const MESSAGES: &str = "/v1/messages";
const QUESTION: &str = "Why is the sky blue, and why is the sea blue? Tell it in simple words.";

fn chat() -> Value {
    json!({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": QUESTION}], "max_tokens": 3})
}

fn response(stream: bool) -> Value {
    json!({"instructions": "Be kind.", "input": QUESTION, "max_output_tokens": 3, "stream": stream})
}

fn message(stream: bool) -> Value {
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]);
    json!({"system": "Be kind.", "messages": messages, "max_tokens": 3, "stream": stream})
}

/// Name and data of each event; the name is the data's type.
fn events(answer: &Answer) -> Vec<(String, Value)> {
    assert_eq!(answer.content_type.as_deref(), Some("text/event-stream; charset=utf-8"));
    let read = |event: &str| {
        let (name, data) = event.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap().to_owned();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["type"], name.as_str());
        (name, data)
    };
    std::str::from_utf8(&answer.body).unwrap().split_terminator("\n\n").map(read).collect()
}

#[tokio::test]
async fn all_apis_compute_the_same_prompt_and_say_the_same_words() {
    let engine = start(SimConfig::default()).await;
    let cold = post(&engine, CHAT, &chat()).await.json();
    let prompt = cold["usage"]["prompt_tokens"].as_u64().unwrap();
    let words = cold["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    let cached = (prompt - 1) / 16 * 16;

    let whole = post(&engine, RESPONSES, &response(false)).await.json();
    let usage = &whole["usage"];
    let told =
        (&usage["input_tokens"], &usage["input_tokens_details"]["cached_tokens"], &usage["output_tokens"]);
    assert_eq!(told, (&json!(prompt), &json!(cached), &json!(3)));
    assert_eq!(whole["output"][0]["content"][0]["text"], words.as_str());

    let whole = post(&engine, MESSAGES, &message(false)).await.json();
    let usage = &whole["usage"];
    let told = (&usage["input_tokens"], &usage["cache_read_input_tokens"], &usage["output_tokens"]);
    assert_eq!(told, (&json!(prompt - cached), &json!(cached), &json!(3)));
    assert_eq!(whole["content"][0]["text"], words.as_str());
    let stats = engine.stats();
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (3 * prompt, 2 * cached));
    engine.stop().await;
}

#[tokio::test]
async fn a_streamed_response_is_numbered_and_ends_with_the_whole_one() {
    let engine = start(SimConfig::default()).await;
    let events = events(&post(&engine, RESPONSES, &response(true)).await);
    let names: Vec<_> = events.iter().map(|(name, _)| name.strip_prefix("response.").unwrap()).collect();
    let expected = [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names, expected);
    for (number, (_, event)) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let text: String = events.iter().filter_map(|(_, event)| event["delta"].as_str()).collect();
    let last = &events[10].1["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], text.as_str());
    assert_eq!(last["id"], events[0].1["response"]["id"]);
    let mut whole = post(&engine, RESPONSES, &response(false)).await.json();
    // What differs from one response to the next.
    for (field, value) in
        [("id", &last["id"]), ("created_at", &last["created_at"]), ("output", &last["output"])]
    {
        whole[field] = value.clone();
    }
    assert_eq!(last["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
    whole["usage"] = last["usage"].clone();
    assert_eq!(*last, whole);
    engine.stop().await;
}

#[tokio::test]
async fn a_streamed_message_tells_the_prompt_first_and_the_cache_last() {
    let engine = start(SimConfig::default()).await;
    let whole = post(&engine, MESSAGES, &message(false)).await.json();
    let prompt = whole["usage"]["input_tokens"].as_u64().unwrap();
    let events = events(&post(&engine, MESSAGES, &message(true)).await);
    let names: Vec<_> = events.iter().map(|(name, _)| name.as_str()).collect();
    let delta = "content_block_delta";
    let expected = [
        "message_start",
        "content_block_start",
        delta,
        delta,
        delta,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    let start = &events[0].1["message"]["usage"];
    assert_eq!(*start, json!({"input_tokens": prompt, "output_tokens": 0}));
    let usage = &events[6].1["usage"];
    let cached = (prompt - 1) / 16 * 16;
    let told = (&usage["input_tokens"], &usage["cache_read_input_tokens"], &usage["output_tokens"]);
    assert_eq!(told, (&json!(prompt - cached), &json!(cached), &json!(3)));
    engine.stop().await;
}

#[tokio::test]
async fn a_response_continues_another_with_its_answer() {
    let engine = start(SimConfig::default()).await;
    let first = post(&engine, RESPONSES, &response(true)).await;
    let last = events(&first).pop().unwrap().1["response"].clone();
    let more = json!({"input": "And the sea?", "previous_response_id": last["id"], "max_output_tokens": 2});
    let second = post(&engine, RESPONSES, &more).await.json();
    assert_eq!(second["previous_response_id"], last["id"]);
    let (before, after) = (&last["usage"], &second["usage"]["input_tokens"]);
    assert!(after.as_u64() > before["total_tokens"].as_u64().map(|tokens| tokens - 10), "{before} {after}");
    let unknown = json!({"input": "x", "previous_response_id": "resp_none"});
    let answer = post(&engine, RESPONSES, &unknown).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    let forgotten = json!({"input": "x", "store": false});
    let id = post(&engine, RESPONSES, &forgotten).await.json()["id"].clone();
    let answer = post(&engine, RESPONSES, &json!({"input": "x", "previous_response_id": id})).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    engine.stop().await;
}

#[tokio::test]
async fn what_is_missing_or_not_simulated_is_refused_by_name() {
    let engine = start(SimConfig::default()).await;
    for (path, body, named) in [
        (RESPONSES, json!({}), "Field required"),
        (MESSAGES, json!({"messages": []}), "Field required"),
        (
            MESSAGES,
            json!({"messages": [{"role": "user", "content": [{"type": "image"}]}], "max_tokens": 1}),
            "only text",
        ),
        (RESPONSES, json!({"input": [{"type": "reasoning"}]}), "without a role"),
    ] {
        let answer = post(&engine, path, &body).await;
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(answer.status == StatusCode::BAD_REQUEST && message.contains(named), "{message}");
    }
    engine.stop().await;
}
