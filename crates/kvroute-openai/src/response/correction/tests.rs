use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{BodyScan, Observation, StreamScanner, TokenCounts, TokenIds, UsageChunk};

const DECODED_ELSEWHERE: UsageCorrection =
    UsageCorrection { prompt: Some(100), cached: Some(64), completion_before: 0 };

const CONTINUED: UsageCorrection = UsageCorrection { prompt: Some(100), cached: None, completion_before: 20 };

fn corrected(correction: UsageCorrection, body: &str) -> String {
    let scan =
        BodyScan::read_correcting(Bytes::copy_from_slice(body.as_bytes()), TokenIds::Ignore, correction);
    String::from_utf8(scan.forward.to_vec()).unwrap()
}

#[test]
fn a_continued_answer_counts_the_clients_prompt_and_all_that_was_generated() {
    let usage = |prompt, total, completion, cached| {
        format!(
            r#"{{"choices":[], "usage": {{"total_tokens":{total} ,"prompt_tokens" : {prompt},"completion_tokens":{completion},"prompt_tokens_details":{{"cached_tokens": {cached}}},"x":1.50}}}}"#
        )
    };
    assert_eq!(corrected(CONTINUED, &usage(120, 127, 7, 96)), usage(100, 127, 27, 96));
    assert_eq!(corrected(CONTINUED, &usage(120, 127, 7, 112)), usage(100, 127, 27, 100));
}

#[test]
fn a_continued_answer_tells_of_no_more_new_cache_than_its_prompt_has() {
    let usage = |prompt, created| {
        format!(
            r#"{{"usage":{{"prompt_tokens":{prompt},"prompt_tokens_details":{{"cached_tokens":0,"created_cache_tokens":{created}}}}}}}"#
        )
    };
    assert_eq!(corrected(CONTINUED, &usage(120, "112")), usage(100, "100"));
    assert_eq!(corrected(CONTINUED, &usage(120, "96")), usage(100, "96"));
    assert_eq!(corrected(CONTINUED, &usage(120, "null")), usage(100, "null"));
    let before = UsageCorrection { completion_before: 1, ..UsageCorrection::default() };
    assert_eq!(corrected(before, &usage(120, "128")), usage(120, "128"), "the prompt is the client's own");
}

#[test]
fn what_another_engine_had_cached_is_told_where_it_belongs() {
    let with = |details: &str| format!(r#"{{"usage":{{"prompt_tokens":100,"total_tokens":101{details}}}}}"#);
    for (said, told) in [
        ("", r#","prompt_tokens_details":{"cached_tokens":64}"#),
        (r#","prompt_tokens_details":null"#, r#","prompt_tokens_details":{"cached_tokens":64}"#),
        (r#","prompt_tokens_details":{}"#, r#","prompt_tokens_details":{"cached_tokens":64}"#),
        (
            r#","prompt_tokens_details":{"audio_tokens":0 }"#,
            r#","prompt_tokens_details":{"audio_tokens":0 ,"cached_tokens":64}"#,
        ),
        (
            r#","prompt_tokens_details":{"cached_tokens":99,"audio_tokens":0}"#,
            r#","prompt_tokens_details":{"cached_tokens":64,"audio_tokens":0}"#,
        ),
        (
            r#","prompt_tokens_details":{"cached_tokens":null}"#,
            r#","prompt_tokens_details":{"cached_tokens":64}"#,
        ),
    ] {
        assert_eq!(corrected(DECODED_ELSEWHERE, &with(said)), with(told), "{said}");
    }
}

#[test]
fn what_is_no_count_and_other_words_stay_as_they_are() {
    for body in [
        r#"{"usage":null}"#,
        r#"{"usage":{}}"#,
        r#"{"usage":{"prompt_tokens":"9","total_tokens":3,"completion_tokens":1}}"#,
        r#"{"usage":{"input_tokens":9,"output_tokens":3}}"#,
        r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"cache_read_input_tokens":3}}}"#,
        r#"{"choices":[{"usage":{"prompt_tokens":9}}]}"#,
        r#"{"usage":{"prompt_tokens":9"#,
    ] {
        assert_eq!(corrected(DECODED_ELSEWHERE, body), body);
        assert_eq!(corrected(CONTINUED, body), body);
    }
    let odd = r#"{"usage":{"prompt_tokens":100,"completion_tokens":null,"total_tokens":-1,"prompt_tokens_details":7}}"#;
    assert_eq!(corrected(CONTINUED, odd), odd);
}

#[test]
fn what_was_generated_before_is_added_only_where_the_rest_is_counted() {
    let body = r#"{"usage":{"prompt_tokens":120,"total_tokens":120}}"#;
    assert_eq!(corrected(CONTINUED, body), r#"{"usage":{"prompt_tokens":100,"total_tokens":100}}"#);
}

#[test]
fn the_router_still_reads_what_the_engine_said() {
    let line = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"completion_tokens\":7}}\n\n";
    let mut scanner = StreamScanner::new(UsageChunk::Forward).correcting(CONTINUED);
    let mut observations = Vec::new();
    let forward = scanner.push(&Bytes::from_static(line.as_bytes()), &mut observations);
    assert_eq!(forward, line.replace("120", "100").replace(":7", ":27"));
    let counts = TokenCounts { prompt: Some(120), completion: Some(7) };
    assert_eq!(observations, [Observation::Usage(counts)]);
}

fn any_usage() -> impl Strategy<Value = Value> {
    let count = || prop_oneof![4 => (0u64..1000).prop_map(Value::from), 1 => Just(Value::Null), 1 => Just(json!("7"))];
    let details = prop_oneof![
        Just(Value::Null),
        Just(json!({})),
        (0u64..1000).prop_map(|cached| json!({"a": 1.5, "cached_tokens": cached})),
        (0u64..1000).prop_map(|created| json!({"created_cache_tokens": created, "cached_tokens": 3})),
    ];
    let members = prop::collection::vec(
        prop_oneof![
            count().prop_map(|value| ("prompt_tokens", value)),
            count().prop_map(|value| ("completion_tokens", value)),
            count().prop_map(|value| ("total_tokens", value)),
            details.prop_map(|value| ("prompt_tokens_details", value)),
            Just(("z", json!({"prompt_tokens": 3}))),
        ],
        0..6,
    );
    members.prop_map(|members| {
        Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    })
}

/// The same by way of a tree. Without anything to correct even a total below the prompt stays as it is.
fn model(correction: UsageCorrection, usage: &mut Value) {
    if !correction.is_any() {
        return;
    }
    let Some(prompt) = usage["prompt_tokens"].as_u64() else { return };
    let told = correction.prompt.unwrap_or(prompt);
    let completion = usage["completion_tokens"].as_u64();
    let before = completion.map_or(0, |_| correction.completion_before);
    usage["prompt_tokens"] = json!(told);
    if let Some(completion) = completion {
        usage["completion_tokens"] = json!(completion + before);
    }
    if let Some(total) = usage.get("total_tokens").and_then(Value::as_u64) {
        usage["total_tokens"] = json!(total.saturating_sub(prompt) + told + before);
    }
    let created =
        usage.get_mut("prompt_tokens_details").and_then(|told| told.get_mut("created_cache_tokens"));
    if let Some(created) =
        created.filter(|created| correction.prompt.is_some() && created.as_u64() > Some(told))
    {
        *created = json!(told);
    }
    let said = usage.get("prompt_tokens_details").and_then(|details| details.get("cached_tokens")).cloned();
    match correction.cached {
        Some(cached) => {
            if usage.get("prompt_tokens_details").is_none_or(Value::is_null) {
                usage["prompt_tokens_details"] = json!({});
            }
            usage["prompt_tokens_details"]["cached_tokens"] = json!(cached);
        }
        None if correction.prompt.is_some() && said.and_then(|said| said.as_u64()) > Some(told) => {
            usage["prompt_tokens_details"]["cached_tokens"] = json!(told);
        }
        None => {}
    }
}

proptest! {
    #[test]
    fn a_correction_is_what_a_tree_would_make_of_it(
        usage in any_usage(),
        pretty: bool,
        prompt in prop::option::of(0u64..1000),
        cached in prop::option::of(0u64..1000),
        completion_before in 0u64..50,
    ) {
        let correction = UsageCorrection { prompt, cached, completion_before };
        let part = json!({"a": [1.5], "usage": usage, "b": "\"}"});
        let text = if pretty { serde_json::to_string_pretty(&part) } else { serde_json::to_string(&part) };
        let forwarded = corrected(correction, &text.unwrap());
        let mut expected = part;
        model(correction, &mut expected["usage"]);
        prop_assert_eq!(serde_json::from_str::<Value>(&forwarded).unwrap(), expected);
    }
}
