//! Reports that come before the end, of clients that do not wait for it.

use http_body_util::BodyExt;
use kvroute_openai::Endpoint;
use kvroute_sim::{Faults, PrivateReport, SimConfig};
use kvroute_testkit::Fleet;
use serde_json::{Value, json};

use crate::asking::{QUESTION, Shape, outcomes, reported_input, reused};
use crate::scripted::{Conduct, Scripted};

const PROMPT: [u32; 6] = [5, 6, 7, 8, 9, 10];

/// Reads the first piece of a stream and leaves.
async fn leaves_early(fleet: &Fleet, path: &str, body: &Value) {
    let mut response = fleet.client.open(&fleet.data(path), body).await;
    assert_eq!(response.status(), 200);
    let piece = response.frame().await.unwrap().unwrap();
    assert!(!piece.data_ref().unwrap().is_empty());
}

#[tokio::test]
async fn a_stream_that_is_left_after_an_early_report_has_reported() {
    let streams = || Shape::all().into_iter().filter(|shape| shape.stream);
    for early in [true, false] {
        let engine_data = early.then_some(PrivateReport::FirstChunk);
        let slow = SimConfig {
            decode_tps: 5,
            faults: Faults { engine_data, ..Faults::default() },
            ..SimConfig::default()
        };
        let fleet = Fleet::start(vec![slow], "kv").await;
        for shape in streams() {
            let mut body = shape.asks(QUESTION);
            for bound in ["max_tokens", "max_output_tokens"] {
                if let Some(bound) = body.get_mut(bound) {
                    *bound = json!(500);
                }
            }
            leaves_early(&fleet, shape.endpoint.path(), &body).await;
        }
        let scrape = fleet.at_rest().await;
        assert_eq!(scrape.count("kvroute_attempts_total", &[("outcome", "cancelled")]), 4);
        let stats = fleet.engines[0].stats();
        let (told, reused_tokens, input) = match early {
            true => (
                ["reported", "unchecked"].map(|outcome| outcomes(&scrape, outcome)),
                stats.reused_tokens,
                stats.prompt_tokens,
            ),
            false => ([outcomes(&scrape, "unfinished"), 0], 0, 0),
        };
        assert_eq!(told, if early { [2, 2] } else { [4, 0] });
        assert_eq!((reused(&scrape), reported_input(&scrape)), (reused_tokens, input));
        fleet.stop().await;
    }
}

/// A stream of one event after the other that never ends.
async fn held(events: &[&str]) -> Scripted {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Scripted::start(move |_, _| Conduct::Holds(text.clone())).await
}

async fn told(worker: Scripted) -> (u64, u64, u64) {
    let path = Endpoint::Completions.path();
    leaves_early(&worker.fleet, path, &json!({"prompt": PROMPT, "stream": true})).await;
    let scrape = worker.fleet.at_rest().await;
    let told = (outcomes(&scrape, "reported"), outcomes(&scrape, "unfinished"), reused(&scrape));
    worker.fleet.stop().await;
    told
}

/// llama.cpp tells with the progress of the prompt what it found in its cache.
#[tokio::test]
async fn progress_of_the_prompt_is_a_report() {
    let progress = r#"{"choices":[{"text":"","index":0}],"timings":{"cache_n":4,"prompt_n":0},"prompt_progress":{"total":6,"cache":4,"processed":4,"time_ms":0}}"#;
    assert_eq!(told(held(&[progress]).await).await, (1, 0, 4));
    let timings_alone = r#"{"choices":[{"text":"a","index":0}],"timings":{"cache_n":4,"prompt_n":2}}"#;
    assert_eq!(told(held(&[timings_alone]).await).await, (1, 0, 4));
}

/// SGLang's first chunk has no details yet, vLLM's have none at all.
#[tokio::test]
async fn continuous_usage_reports_as_soon_as_it_has_details() {
    let silent = r#"{"choices":[{"text":"","index":0}],"usage":{"prompt_tokens":6,"completion_tokens":0}}"#;
    let telling = r#"{"choices":[{"text":"a","index":0}],"usage":{"prompt_tokens":6,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":3}}}"#;
    assert_eq!(told(held(&[silent, telling]).await).await, (1, 0, 3));
    assert_eq!(told(held(&[silent, silent]).await).await, (0, 1, 0));
}

#[tokio::test]
async fn native_meta_information_is_a_report_in_a_chunk_too() {
    let meta = r#"{"choices":[{"text":"a","index":0}],"meta_info":{"prompt_tokens":6,"cached_tokens":5}}"#;
    assert_eq!(told(held(&[meta]).await).await, (1, 0, 5));
}

#[tokio::test]
async fn a_valid_report_counts_after_an_invalid_one_and_nothing_after_it() {
    let usage = |cached: &str| {
        format!(
            r#"{{"choices":[{{"text":"a","index":0}}],"usage":{{"prompt_tokens":6,"prompt_tokens_details":{{"cached_tokens":{cached}}}}}}}"#
        )
    };
    let private = r#"{"choices":[],"engine_data":{"kv_cache_hit":{"reused_tokens":1}}}"#;
    let (null, two, four, half) = (usage("null"), usage("2"), usage("4"), usage("2.5"));
    assert_eq!(told(held(&[private, &null, &two, &four, &half]).await).await, (1, 0, 2));
}
