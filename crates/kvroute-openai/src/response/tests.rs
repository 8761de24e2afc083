use kvroute_core::{Figure, ReportSource, WorkerReport};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::TokenCounts;

mod token_ids;
mod typed;

/// What the client gets of a part; `None` where nothing is left of it.
fn edited(mode: TokenIds, text: &str) -> Option<String> {
    let (mut reader, mut out) = (PartReader::new(mode), Vec::new());
    let part = reader.read(text, &mut Vec::new()).unwrap();
    reader.write_edited(text, &mut out);
    (!part.is_private).then(|| String::from_utf8(out).unwrap())
}

fn read_part(text: &str, observations: &mut Vec<Observation>) -> Option<Part> {
    PartReader::default().read(text, observations)
}

fn observe(text: &str) -> Vec<Observation> {
    let mut observations = Vec::new();
    read_part(text, &mut observations).unwrap();
    observations
}

fn report(text: &str) -> Option<WorkerReport> {
    observe(text).into_iter().find_map(|observation| match observation {
        Observation::Report(report) => Some(report),
        _ => None,
    })
}

fn figures(text: &str) -> (ReportSource, Figure, Figure) {
    let WorkerReport { source, prompt, reused } = report(text).unwrap();
    (source, prompt, reused)
}

const N: fn(u64) -> Figure = Figure::Count;

#[test]
fn every_source_is_read() {
    use ReportSource::*;
    for (text, expected) in [
        (
            r#"{"engine_data":{"kv_cache_hit":{"prompt_tokens":9,"reused_tokens":4,"new":1}}}"#,
            (EngineData, N(9), N(4)),
        ),
        (r#"{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}"#, (Usage, N(9), N(0))),
        (
            r#"{"usage":{"input_tokens":1,"cache_read_input_tokens":9,"cache_creation_input_tokens":2}}"#,
            (AnthropicUsage, N(12), N(9)),
        ),
        (r#"{"usage":{"cache_read_input_tokens":9,"input_tokens":1}}"#, (AnthropicUsage, N(10), N(9))),
        (r#"{"timings":{"cache_n":177,"prompt_n":1,"prompt_ms":3.5}}"#, (Timings, N(178), N(177))),
        (r#"{"meta_info":{"prompt_tokens":9,"cached_tokens":8}}"#, (MetaInfo, N(9), N(8))),
    ] {
        assert_eq!(figures(text), expected, "{text}");
    }
}

#[test]
fn the_first_source_of_a_part_wins() {
    let engine = r#""engine_data":{"kv_cache_hit":{"prompt_tokens":1,"reused_tokens":1}}"#;
    let usage = r#""usage":{"prompt_tokens":2,"prompt_tokens_details":{"cached_tokens":2},"cache_read_input_tokens":7}"#;
    let timings = r#""timings":{"cache_n":3,"prompt_n":0}"#;
    let meta = r#""meta_info":{"prompt_tokens":4,"cached_tokens":4}"#;
    let source = |parts: &[&str]| report(&format!("{{{}}}", parts.join(","))).unwrap().source;
    assert_eq!(source(&[meta, timings, usage, engine]), ReportSource::EngineData);
    assert_eq!(source(&[meta, timings, usage]), ReportSource::Usage);
    assert_eq!(source(&[meta, timings, r#""usage":{"prompt_tokens":1}"#]), ReportSource::Timings);
    assert_eq!(source(&[meta, r#""engine_data":{"kv_cache_hit":null}"#]), ReportSource::MetaInfo);
    assert_eq!(report(r#"{"timings":{"prompt_n":5},"usage":null}"#), None);
}

#[test]
fn missing_and_odd_figures_are_never_zero() {
    let cached = |value: &str| {
        let text = format!(
            r#"{{"usage":{{"prompt_tokens":9,"prompt_tokens_details":{{"cached_tokens":{value}}}}}}}"#
        );
        figures(&text).2
    };
    for odd in ["null", "-1", "-0", "1.0", "1e2", "\"5\"", "true", "[]", "{}", "18446744073709551616"] {
        assert_eq!(cached(odd), Figure::Invalid, "{odd}");
    }
    assert_eq!(cached("18446744073709551615"), N(u64::MAX));
    // No statement at all.
    for details in ["null", "{}", "{\"audio_tokens\":1}", "7"] {
        assert_eq!(
            report(&format!(r#"{{"usage":{{"prompt_tokens":9,"prompt_tokens_details":{details}}}}}"#)),
            None
        );
    }
    // One half of a statement.
    let half = r#"{"engine_data":{"kv_cache_hit":{"reused_tokens":4}}}"#;
    assert_eq!(figures(half), (ReportSource::EngineData, Figure::Absent, N(4)));
    let other_half = r#"{"engine_data":{"kv_cache_hit":{"prompt_tokens":4}}}"#;
    assert_eq!(figures(other_half), (ReportSource::EngineData, N(4), Figure::Absent));
    let no_object = r#"{"engine_data":{"kv_cache_hit":5}}"#;
    assert_eq!(figures(no_object), (ReportSource::EngineData, Figure::Invalid, Figure::Invalid));
    let no_prompt = r#"{"usage":{"prompt_tokens_details":{"cached_tokens":3}}}"#;
    assert_eq!(figures(no_prompt), (ReportSource::Usage, Figure::Absent, N(3)));
    let overflow = r#"{"timings":{"cache_n":18446744073709551615,"prompt_n":1}}"#;
    assert_eq!(figures(overflow), (ReportSource::Timings, Figure::Invalid, N(u64::MAX)));
    let no_rest = r#"{"timings":{"cache_n":5}}"#;
    assert_eq!(figures(no_rest), (ReportSource::Timings, Figure::Absent, N(5)));
}

#[test]
fn content_is_text_reasoning_or_tool_calls_of_a_choice() {
    let content = |choice: &str| observe(&format!(r#"{{"choices":[{choice}]}}"#));
    let seen = |choice| vec![Observation::Content { choice }];
    assert_eq!(content(r#"{"text":" a","index":3,"finish_reason":null}"#), seen(3));
    assert_eq!(content(r#"{"index":0,"delta":{"role":"assistant","content":" "}}"#), seen(0));
    assert_eq!(content(r#"{"index":2,"delta":{"content":null,"reasoning_content":"hm"}}"#), seen(2));
    assert_eq!(content(r#"{"index":0,"delta":{"reasoning":"hm"}}"#), seen(0));
    assert_eq!(content(r#"{"index":0,"delta":{"tool_calls":[{"index":0}]}}"#), seen(0));
    assert_eq!(content(r#"{"index":0,"message":{"content":[{"type":"text"}]}}"#), seen(0));
    for nothing in [
        r#"{"index":0,"delta":{"role":"assistant","content":""}}"#,
        r#"{"index":0,"delta":{"role":"assistant","content":null}}"#,
        r#"{"index":0,"delta":{"tool_calls":[ ],"reasoning_content":null}}"#,
        r#"{"index":0,"delta":{},"text":""}"#,
        r#"{"index":0,"delta":null}"#,
        "7",
    ] {
        assert_eq!(content(nothing), [], "{nothing}");
    }
}

#[test]
fn the_end_of_a_choice_follows_its_last_text() {
    let text = r#"{"choices":[{"finish_reason":"length","index":1,"text":"x"},{"index":0,"finish_reason":"abort"}]}"#;
    assert_eq!(
        observe(text),
        [
            Observation::Content { choice: 1 },
            Observation::Finish { choice: 1, reason: FinishReason::Length },
            Observation::Finish { choice: 0, reason: FinishReason::Aborted },
        ]
    );
}

#[test]
fn usage_counts_are_read_and_null_usage_says_nothing() {
    let counts = |prompt, completion| vec![Observation::Usage(TokenCounts { prompt, completion })];
    assert_eq!(observe(r#"{"usage":{"prompt_tokens":7,"completion_tokens":2}}"#), counts(Some(7), Some(2)));
    assert_eq!(observe(r#"{"usage":{"prompt_tokens":-7}}"#), counts(None, None));
    assert_eq!(observe(r#"{"usage":null}"#), []);
}

#[test]
fn errors_of_every_dialect_are_seen() {
    assert_eq!(observe(r#"{"error":{"message":"x"}}"#), [Observation::Error]);
    assert_eq!(observe(r#"{"object":"error","message":"x"}"#), [Observation::Error]);
    assert_eq!(observe(r#"{"error":null,"object":"chat.completion.chunk"}"#), []);
}

#[test]
fn only_an_empty_choice_list_with_usage_is_the_usage_chunk() {
    let is_usage_only = |text| read_part(text, &mut Vec::new()).unwrap().is_usage_only;
    assert!(is_usage_only(r#"{"choices":[],"usage":{}}"#));
    assert!(is_usage_only(r#"{"usage":{"prompt_tokens":1},"choices":[ ]}"#));
    for other in [
        r#"{"choices":[],"usage":null}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":null,"usage":{}}"#,
        r#"{"usage":{}}"#,
        r#"{"choices":[{}],"usage":{}}"#,
    ] {
        assert!(!is_usage_only(other), "{other}");
    }
}

#[test]
fn broken_text_says_nothing() {
    let mut observations = vec![Observation::Done];
    for broken in [
        r#"{"choices":[{"index":0,"text":"x"}],"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cach"#,
        r#"{"choices":[{"index":0,"text":"x"}]} trailing"#,
        "[]",
        "",
    ] {
        assert_eq!(read_part(broken, &mut observations), None, "{broken}");
    }
    assert_eq!(observations, [Observation::Done]);
}

#[test]
fn repeated_private_members_are_all_taken_out() {
    let cut = |text: &str| edited(TokenIds::Ignore, text);
    assert_eq!(cut(r#"{"a":1,"engine_data":{},"engine_data":{}}"#).unwrap(), r#"{"a":1}"#);
    assert_eq!(cut(r#"{"engine_data":1 , "a":[2], "engine_data" : 3 }"#).unwrap(), r#"{"a":[2] }"#);
    assert_eq!(cut(r#"{"engine\u005fdata":{"x":"\""},"a":1}"#).unwrap(), r#"{"a":1}"#);
    assert_eq!(
        cut(r#"{"engine_data":1,"a":1,"engine_data":2,"b":2,"engine_data":3}"#).unwrap(),
        r#"{"a":1,"b":2}"#
    );
    assert_eq!(cut(r#"{"a":1 , "engine_data":1 , "engine_data":2 , "b":2}"#).unwrap(), r#"{"a":1 , "b":2}"#);
    assert_eq!(
        cut(r#"{"engine_data":1,"a":1 ,"engine_data":2 ,"engine_data":3 }"#).unwrap(),
        r#"{"a":1   }"#
    );
    assert_eq!(cut(r#"{"engine_data":1,"engine_data":2}"#), None);
}

/// A response part with `engine_data` anywhere among other members, spaced in any way.
fn part_with_engine_data() -> impl Strategy<Value = (String, Value)> {
    let names = prop::collection::btree_set("[a-z\"\\\\é]{1,6}", 1..5);
    (names, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(names, at, pretty)| {
        let place = at.index(names.len() + 1);
        let mut members: Vec<(String, Value)> = names
            .into_iter()
            .map(|name| (name.clone(), json!([name, "engine_data", {"engine_data": 1}])))
            .collect();
        let without = Value::Object(members.iter().cloned().collect());
        members.insert(place, ("engine_data".to_owned(), json!({"kv_cache_hit": null, "x": ",}\""})));
        let with = Value::Object(members.into_iter().collect());
        let text = if pretty { serde_json::to_string_pretty(&with) } else { serde_json::to_string(&with) };
        (text.unwrap(), without)
    })
}

proptest! {
    #[test]
    fn taking_the_private_member_out_leaves_the_others((text, without) in part_with_engine_data()) {
        let rest = edited(TokenIds::Ignore, &text).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&rest).unwrap(), without);
        // What is left is the text in its old order with one run of bytes cut out.
        let head = text.bytes().zip(rest.bytes()).take_while(|(a, b)| a == b).count();
        prop_assert!(text[..].ends_with(&rest[head..]));
    }
}

mod likeness;
