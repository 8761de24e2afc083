//! Streams that end before their time, and only so many of them.

use std::time::Duration;

use http_body_util::BodyExt;
use kvroute_sim::{Faults, SimConfig, SimEngine};
use serde_json::json;

use crate::http::{COMPLETIONS, finish, open, start};

async fn stream(engine: &SimEngine) -> hyper::Response<hyper::body::Incoming> {
    open(engine, COMPLETIONS, &json!({"prompt": [1, 2, 3], "max_tokens": 4, "stream": true})).await
}

#[tokio::test]
async fn a_stream_can_end_in_good_order_without_an_end() {
    let engine = start(SimConfig::default()).await;
    engine.set_faults(Faults { end_after_chunks: Some(2), ..Faults::default() }).await.unwrap();
    let events = finish(stream(&engine).await).await.events();
    assert_eq!(events.len(), 2);
    assert!(events.iter().all(|event| event.contains("\"finish_reason\":null")), "{events:?}");
    engine.stop().await;
}

#[tokio::test]
async fn a_stream_can_fall_silent() {
    let engine = start(SimConfig::default()).await;
    engine.set_faults(Faults { stall_after_chunks: Some(1), ..Faults::default() }).await.unwrap();
    let mut body = stream(&engine).await.into_body();
    assert!(body.frame().await.unwrap().unwrap().into_data().unwrap().ends_with(b"\n\n"));
    let more = tokio::time::timeout(Duration::from_millis(50), body.frame()).await;
    assert!(more.is_err(), "{more:?}");
    engine.stop().await;
}

#[tokio::test]
async fn only_so_many_answers_are_cut_short() {
    let engine = start(SimConfig::default()).await;
    let faults = Faults { break_after_chunks: Some(1), broken_answers: Some(2), ..Faults::default() };
    engine.set_faults(faults).await.unwrap();
    let mut whole = Vec::new();
    for _ in 0..4 {
        let body = stream(&engine).await.into_body().collect().await;
        whole.push(body.is_ok_and(|body| body.to_bytes().ends_with(b"data: [DONE]\n\n")));
    }
    assert_eq!(whole, [false, false, true, true]);
    engine.stop().await;
}
