//! Switched faults do what they say, and leave the counting true.

use http_body_util::BodyExt;
use hyper::StatusCode;
use kvroute_sim::{Faults, SimConfig, SimEngine};
use serde_json::{Value, json};

use crate::http::{COMPLETIONS, complete, open, post, start, until_stats};

fn stream() -> Value {
    json!({"prompt": "x", "max_tokens": 4, "stream": true, "stream_options": {"include_usage": true}})
}

async fn switch(engine: &SimEngine, faults: Value) {
    let answer = post(engine, "/faults", &faults).await;
    assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
    assert_eq!(answer.json(), crate::http::get(engine, "/faults").await.json());
}

#[tokio::test]
async fn refusal_has_the_status_asked_for_and_passes() {
    let faults = Faults { refuse_status: Some(503), ..Faults::default() };
    let engine = start(SimConfig { faults, ..SimConfig::default() }).await;
    let answer = post(&engine, COMPLETIONS, &stream()).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]["code"]), (503, &json!(503)));
    switch(&engine, json!({})).await;
    assert_eq!(post(&engine, COMPLETIONS, &stream()).await.status, StatusCode::OK);
    assert_eq!(engine.stats().requests, 1);
    engine.stop().await;
}

#[tokio::test]
async fn a_hanging_engine_sends_no_head_until_its_client_goes() {
    let engine = start(SimConfig::default()).await;
    switch(&engine, json!({"hang": true})).await;
    let body = stream();
    let patience = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(patience, open(&engine, COMPLETIONS, &body)).await.is_err());
    assert_eq!(engine.stats().requests, 0);
    engine.stop().await;
}

#[tokio::test]
async fn a_stream_breaks_behind_the_given_chunk() {
    let engine = start(SimConfig::default()).await;
    for chunks in 0..4 {
        switch(&engine, json!({"break_after_chunks": chunks})).await;
        let mut body = open(&engine, COMPLETIONS, &stream()).await.into_body();
        let mut received = Vec::new();
        let end = loop {
            match body.frame().await {
                Some(Ok(frame)) => received.extend_from_slice(frame.data_ref().unwrap()),
                end => break end,
            }
        };
        assert!(end.is_some_and(|end| end.is_err()), "the stream must not end cleanly");
        let text = String::from_utf8(received).unwrap();
        assert_eq!(text.matches("data: {").count(), chunks, "{text}");
    }
    until_stats(&engine, "nothing runs", |stats| stats.running == 0 && stats.kv_blocks_held == 0).await;
    engine.stop().await;
}

#[tokio::test]
async fn a_whole_answer_breaks_in_its_middle() {
    let engine = start(SimConfig::default()).await;
    switch(&engine, json!({"break_after_chunks": 0})).await;
    let response = open(&engine, COMPLETIONS, &json!({"prompt": "x"})).await;
    let length: usize = response.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let mut body = response.into_body();
    let mut received = 0;
    while let Some(Ok(frame)) = body.frame().await {
        received += frame.data_ref().unwrap().len();
    }
    assert_eq!(received, length / 2);
    engine.stop().await;
}

#[tokio::test]
async fn garbage_and_truncated_usage_are_no_json() {
    let engine = start(SimConfig::default()).await;
    switch(&engine, json!({"garbage_after_chunks": 2, "truncated_usage": true})).await;
    let answer = post(&engine, COMPLETIONS, &stream()).await;
    let events: Vec<_> = answer.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    let is_json: Vec<_> = events
        .iter()
        .map(|event| serde_json::from_slice::<Value>(&event[b"data: ".len()..]).is_ok())
        .collect();
    assert_eq!(is_json, [true, true, false, true, true, false, false], "{:?}", answer.body);
    assert_eq!(events[6], b"data: [DONE]");
    assert!(String::from_utf8_lossy(events[5]).contains("\"id\":"), "the usage chunk has begun");
    engine.stop().await;
}

#[tokio::test]
async fn reports_can_lie_or_be_missing_while_statistics_stay_true() {
    let engine = start(SimConfig::default()).await;
    let prompt: Vec<u32> = (0..40).collect();
    switch(&engine, json!({"null_cached_tokens": true, "prompt_tokens_offset": -3})).await;
    let answer = complete(&engine, &prompt, 1).await;
    assert_eq!(answer["usage"]["prompt_tokens"], 37);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], Value::Null);
    switch(&engine, json!({"no_report": true})).await;
    let answer = complete(&engine, &prompt, 1).await;
    assert_eq!(answer["usage"]["prompt_tokens_details"], Value::Null);
    switch(&engine, json!({"null_cached_tokens": true})).await;
    let events = post(&engine, COMPLETIONS, &stream()).await.events();
    let chunk: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!(chunk["usage"]["prompt_tokens_details"].get("cached_tokens"), Some(&Value::Null));
    let stats = engine.stats();
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (81, 32));
    engine.stop().await;
}

/// The cached tokens of so many answers, as they are written; `None` where nothing is said.
async fn told(engine: &SimEngine, answers: usize) -> Vec<(Value, Option<String>)> {
    let mut told = Vec::new();
    for _ in 0..answers {
        let answer = complete(engine, &(0..40).collect::<Vec<_>>(), 1).await;
        let cached = answer["usage"]["prompt_tokens_details"].get("cached_tokens");
        told.push((answer["usage"]["prompt_tokens"].clone(), cached.map(Value::to_string)));
    }
    told
}

#[tokio::test]
async fn every_way_to_misreport_is_what_it_says() {
    let engine = start(SimConfig::default()).await;
    complete(&engine, &(0..40).collect::<Vec<_>>(), 1).await;
    for (way, prompt, cached) in [
        ("missing", 40, None),
        ("null", 40, Some("null")),
        ("negative", 40, Some("-1")),
        ("fraction", 40, Some("32.5")),
        ("text", 40, Some("\"32\"")),
        ("overflow", 40, Some("1.8446744073709552e+19")),
        ("above_prompt", 40, Some("41")),
        ("wrong_prompt", 41, Some("32")),
    ] {
        switch(&engine, json!({"odd_reports": [way]})).await;
        assert_eq!(told(&engine, 1).await, [(json!(prompt), cached.map(str::to_owned))], "{way}");
    }
    let stats = engine.stats();
    assert_eq!((stats.prompt_tokens, stats.reused_tokens), (9 * 40, 8 * 32));
    engine.stop().await;
}

#[tokio::test]
async fn only_some_answers_misreport_and_each_run_the_same_ones() {
    let ways = json!({"odd_reports": ["null", "above_prompt"], "odd_report_percent": 30});
    let mut runs = Vec::new();
    for _ in 0..2 {
        let engine = start(SimConfig { seed: 5, ..SimConfig::default() }).await;
        complete(&engine, &(0..40).collect::<Vec<_>>(), 1).await;
        switch(&engine, ways.clone()).await;
        runs.push(told(&engine, 100).await);
        engine.stop().await;
    }
    assert_eq!(runs[0], runs[1]);
    let count = |text: &str| runs[0].iter().filter(|(_, cached)| cached.as_deref() == Some(text)).count();
    let (right, null, above) = (count("32"), count("null"), count("41"));
    assert_eq!(right + null + above, 100);
    assert!((15..=45).contains(&(null + above)) && null >= 5 && above >= 5, "{null} and {above} of 100");
}

#[tokio::test]
async fn the_private_report_stands_where_it_was_asked_for() {
    let engine = start(SimConfig::default()).await;
    let prompt: Vec<u32> = (0..40).collect();
    complete(&engine, &prompt, 1).await;
    let private = json!({"prompt_tokens": 40, "reused_tokens": 32, "tier": "device"});
    for (place, at) in [("first_chunk", 0), ("last_chunk", 2)] {
        switch(&engine, json!({"engine_data": place})).await;
        let mut body = stream();
        (body["prompt"], body["max_tokens"]) = (json!(prompt), json!(3));
        let events = post(&engine, COMPLETIONS, &body).await.events();
        let told = |event: &String| {
            Some(serde_json::from_str::<Value>(event).ok()?["engine_data"]["kv_cache_hit"].clone())
        };
        let told: Vec<_> = events.iter().filter_map(told).collect();
        let expected: Vec<_> =
            (0..4).map(|chunk| if chunk == at { private.clone() } else { Value::Null }).collect();
        assert_eq!(told, expected, "{place}");
        assert_eq!(complete(&engine, &prompt, 1).await["engine_data"]["kv_cache_hit"], private);
    }
    engine.stop().await;
}

#[tokio::test]
async fn stream_options_can_be_a_field_that_is_not_known() {
    let engine = start(SimConfig::default()).await;
    switch(&engine, json!({"refuse_stream_options": true})).await;
    let answer = post(&engine, COMPLETIONS, &stream()).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("body.stream_options"))
    );
    let mut body = stream();
    body.as_object_mut().unwrap().remove("stream_options");
    assert_eq!(post(&engine, COMPLETIONS, &body).await.status, StatusCode::OK);
    engine.stop().await;
}

#[tokio::test]
async fn unknown_switches_are_refused_by_name() {
    let engine = start(SimConfig::default()).await;
    let answer = post(&engine, "/faults", &json!({"hangs": true})).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("`hangs`"));
    let answer = post(&engine, "/faults", &json!({"refuse_status": 200})).await;
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("refuse_status is 200"));
    let answer = post(&engine, "/faults", &json!({"odd_report_percent": 101})).await;
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("odd_report_percent is 101"));
    engine.stop().await;
}
