use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{StreamScanner, TokenIds, Unasked, UsageChunk, UsageCorrection};

const IDS: TokenIds = TokenIds::Withhold(Unasked::Absent);

fn scanner(delivered: Delivered) -> StreamScanner {
    StreamScanner::with_token_ids(UsageChunk::Forward, IDS).keeping(delivered)
}

/// What passed, and what was kept of it.
fn delivered(stream: &str) -> (String, Delivered) {
    let mut scanner = scanner(Delivered::new(None));
    let forward = scanner.push(&Bytes::copy_from_slice(stream.as_bytes()), &mut Vec::new());
    let (separator, delivered) = scanner.suspend();
    (String::from_utf8([&forward[..], &separator].concat()).unwrap(), delivered.unwrap())
}

fn chunk(choice: serde_json::Value) -> String {
    let mut part = json!({"id": "first", "created": 7, "model": "m"});
    part["choices"] = vec![choice].into();
    format!("data: {part}\n\n")
}

fn role() -> String {
    chunk(json!({"index": 0, "delta": {"role": "assistant", "content": ""}}))
}

fn said(text: &str, ids: &[TokenId]) -> String {
    chunk(json!({"index": 0, "delta": {"content": text}, "token_ids": ids}))
}

fn after(stream: &str) -> Option<Obstacle> {
    delivered(stream).1.obstacle()
}

#[test]
fn text_and_ids_of_one_choice_are_kept() {
    let (_, kept) = delivered(&[role(), said("a\n", &[1, 2]), said("é", &[3])].concat());
    assert_eq!((kept.text(), kept.token_ids(), kept.obstacle()), ("a\né", &[1, 2, 3][..], None));
    let completion = chunk(json!({"index": 0, "text": "x", "token_ids": [5]}));
    assert_eq!(delivered(&completion).1.text(), "x");
}

#[test]
fn the_line_that_did_not_come_to_its_end_is_no_part_of_the_answer() {
    let whole = [role(), said("a", &[1])].concat();
    let (forwarded, kept) = delivered(&format!("{whole}{}", &said("b", &[2]).trim_end()));
    assert_eq!((forwarded, kept.text()), (delivered(&whole).0, "a"));
    let (forwarded, kept) = delivered(said("b", &[2]).strip_suffix('\n').unwrap());
    assert!(forwarded.ends_with("\n\n\n"), "the event is closed: {forwarded:?}");
    assert_eq!(kept.text(), "b");
    let mut ended = scanner(Delivered::new(None));
    ended.push(&Bytes::from(said("b", &[2]).trim_end().to_owned()), &mut Vec::new());
    ended.finish(&mut Vec::new());
    assert!(ended.delivered().unwrap().is_blank());
}

#[test]
fn a_role_alone_and_a_private_report_leave_the_answer_blank() {
    let (_, kept) =
        delivered(&[role(), ": ping\n\n".to_owned(), "data: {\"engine_data\":{}}\n\n".to_owned()].concat());
    assert!(kept.is_blank() && kept.obstacle().is_none());
    assert!(!delivered(&said("a", &[1])).1.is_blank());
}

#[test]
fn what_is_more_than_text_with_ids_stands_against_a_continuation() {
    let delta = |delta| chunk(json!({"index": 0, "delta": delta, "token_ids": [1]}));
    for other in ["reasoning_content", "reasoning", "refusal"] {
        assert_eq!(after(&delta(json!({other: "hm"}))), Some(Obstacle::OtherThanText));
    }
    assert_eq!(after(&delta(json!({"tool_calls": [{"index": 0}]}))), Some(Obstacle::OtherThanText));
    assert_eq!(after(&delta(json!({"content": [{"text": "x"}]}))), Some(Obstacle::OtherThanText));
    assert_eq!(after(&delta(json!({"content": "x", "reasoning": "y"}))), Some(Obstacle::OtherThanText));
    assert_eq!(after(&chunk(json!({"index": 0, "delta": {"content": "x"}}))), Some(Obstacle::NoTokenIds));
    assert_eq!(
        after(&chunk(json!({"index": 0, "delta": {"content": "x"}, "token_ids": ["1"]}))),
        Some(Obstacle::NoTokenIds)
    );
    assert_eq!(
        after(&chunk(json!({"index": 1, "delta": {"content": "x"}, "token_ids": [1]}))),
        Some(Obstacle::Choices)
    );
    assert_eq!(after("data: {\"choices\":[{\"te\n\n"), Some(Obstacle::Unread));
    assert_eq!(after("data: {\"error\":{\"message\":\"x\"}}\n\n"), Some(Obstacle::Error));
    assert_eq!(
        after(&chunk(json!({"index": 0, "delta": {}, "finish_reason": "stop"}))),
        Some(Obstacle::Finished)
    );
    let huge = format!("data: {}", "x".repeat(StreamScanner::MAX_LINE_WITH_IDS + 1));
    assert_eq!(after(&huge), Some(Obstacle::Unread));
}

#[test]
fn what_cannot_begin_anew_is_not_blank() {
    for stream in [
        "data: nonsense\n\n".to_owned(),
        "data: {\"error\":1}\n\n".to_owned(),
        chunk(json!({"index": 0, "delta": {}, "finish_reason": "stop"})),
        chunk(json!({"index": 0, "delta": {"reasoning": "x"}})),
    ] {
        assert!(!delivered(&stream).1.is_blank(), "{stream}");
    }
}

#[test]
fn an_engine_that_tells_its_death_is_withheld_where_another_one_may_go_on() {
    let death = concat!(
        r#"data: {"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","#,
        r#""type":"InternalServerError","param":null,"code":500}}"#,
        "\n\ndata: [DONE]\n\n"
    );
    let stream = Bytes::from([said("a", &[1]).as_str(), death].concat());
    let mut observations = Vec::new();
    let mut kept = scanner(Delivered::new(None));
    let forward = kept.push(&stream, &mut observations);
    assert!(kept.has_died() && !kept.is_done());
    assert!(!observations.contains(&Observation::Error) && !observations.contains(&Observation::Done));
    assert_eq!(kept.suspend().1.unwrap().text(), "a");
    assert_eq!(String::from_utf8(forward.to_vec()).unwrap(), delivered(&said("a", &[1])).0);
    let mut passing = StreamScanner::new(UsageChunk::Forward);
    observations.clear();
    assert_eq!(passing.push(&stream, &mut observations), stream, "it is for the client where nobody goes on");
    assert!(observations.contains(&Observation::Error) && !passing.has_died());
}

/// One token a letter; capitals are held back by the engine.
fn letters(ids: &[TokenId]) -> String {
    ids.iter().filter_map(|id| char::from_u32(*id)).collect()
}

fn ids(text: &str) -> Vec<TokenId> {
    text.chars().map(u32::from).collect()
}

#[test]
fn the_tokens_of_the_text_are_found_among_those_that_came() {
    let (_, kept) = delivered(&[said("ab", &ids("ab")), said("c", &ids("cd")), said("", &ids("e"))].concat());
    assert_eq!(kept.token_ids(), ids("abcde"));
    assert_eq!(kept.tokens_of_text(&ids("prompt"), letters), Some(3));
    assert_eq!(kept.tokens_of_text(&ids("prompt"), |ids| letters(ids).to_uppercase()), None);
    // A token that was cut by what the engine held back has no place.
    let in_pairs = |ids: &[TokenId]| ids.iter().map(|id| format!("{id}{id}")).collect();
    assert_eq!(kept.tokens_of_text(&[], in_pairs), None);
}

#[test]
fn a_chat_must_be_the_prompt_and_what_was_generated() {
    let (_, kept) = delivered(&[said("ab", &ids("ab")), said("c", &ids("cd"))].concat());
    let chat = |rendered: &str| kept.tokens_of_chat(&ids("pp"), &ids(rendered));
    assert_eq!((chat("ppabcd"), chat("ppabc")), (Some(4), Some(3)));
    assert_eq!((chat("ppabx"), chat("pabc"), chat("ppabcde"), chat("p")), (None, None, None, None));
    let (_, spaced) = delivered(&said("ab ", &ids("ab ")));
    let chat = |rendered: &str| spaced.tokens_of_chat(&ids("pp"), &ids(rendered));
    assert_eq!((chat("ppab "), chat("ppab")), (Some(3), None), "a template that trims loses text");
}

#[test]
fn the_second_part_looks_like_the_first() {
    let (first, kept) = delivered(&[role(), said("ab", &[1, 2, 3])].concat());
    let other = |choice: serde_json::Value| {
        let part = json!({"id": "second", "created": 9, "model": "n", "choices": [choice], "system_fingerprint": "f"});
        format!("data: {part}\n\n")
    };
    let usage = r#"data: {"id":"second","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}}"#;
    let second = [
        r#"data: {"id":"second","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"prompt_token_ids":[1]}"#.to_owned() + "\n\n",
        other(json!({"index": 0, "delta": {"role": "assistant", "content": "cd"}, "token_ids": [4]})),
        other(json!({"index": 0, "delta": {}, "finish_reason": "stop"})),
        format!("{usage}\n\ndata: [DONE]\n\n"),
    ]
    .concat();
    let correction = UsageCorrection { prompt: Some(10), cached: None, completion_before: 2 };
    let mut scanner = scanner(kept.continued_behind(2)).correcting(correction);
    let passed = scanner.push(&Bytes::from(second), &mut Vec::new());
    let expected = [
        r#"data: {"choices":[{"delta":{"content":"cd"},"index":0}],"created":7,"id":"first","model":"m","system_fingerprint":"f"}"#,
        r#"data: {"choices":[{"delta":{},"finish_reason":"stop","index":0}],"created":7,"id":"first","model":"m","system_fingerprint":"f"}"#,
        r#"data: {"id":"first","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#,
        "data: [DONE]",
    ]
    .map(|line| format!("{line}\n\n"))
    .concat();
    let sorted = |text: &str| -> Vec<serde_json::Value> {
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
    };
    let passed = String::from_utf8(passed.to_vec()).unwrap();
    assert_eq!(sorted(&passed), sorted(&expected));
    assert_eq!(passed.matches("\n\n").count(), 4);
    assert!(first.contains("\"role\""));
    let kept = scanner.delivered().unwrap();
    assert_eq!((kept.obstacle(), kept.token_ids()), (Some(Obstacle::Finished), &[][..]));
}

#[test]
fn the_clients_own_question_for_ids_never_brings_those_of_another_prompt() {
    let kept = delivered(&role()).1.continued_behind(0);
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, TokenIds::Read).keeping(kept);
    let part =
        r#"data: {"id":"first","choices":[{"index":0,"text":"x","token_ids":[4],"prompt_token_ids":[1,2]}]}"#;
    let passed = scanner.push(&Bytes::from(format!("{part}\n\n")), &mut Vec::new());
    assert_eq!(passed, format!("{}\n\n", part.replace("[1,2]", "null")));
}

#[test]
fn a_stream_without_a_first_part_passes_as_it_is() {
    let stream = [role(), said("ab", &[1])].concat();
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, TokenIds::Read)
        .keeping(Delivered::new(None).continued_behind(0));
    assert_eq!(scanner.push(&Bytes::from(stream.clone()), &mut Vec::new()), stream);
}

proptest! {
    /// However an answer is cut into chunks and wherever it breaks: what is kept is what passed.
    #[test]
    fn what_is_kept_is_what_passed(words in prop::collection::vec("[a-zé\"\\\\ ]{0,3}", 0..12), cut: prop::sample::Index) {
        let stream = words.iter().map(|word| said(word, &ids(word))).collect::<String>();
        let mut at = cut.index(stream.len() + 1);
        while !stream.is_char_boundary(at) {
            at -= 1;
        }
        let (forwarded, kept) = delivered(&stream[..at]);
        let mut text = String::new();
        for line in forwarded.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let part: serde_json::Value = serde_json::from_str(line).unwrap();
            text += part["choices"][0]["delta"]["content"].as_str().unwrap();
        }
        prop_assert_eq!(kept.text(), &text);
        prop_assert_eq!(kept.tokens_of_text(&[], letters), Some(text.chars().count()));
    }

    /// A text in two parts is the text in one: from every place, behind every token that an engine may have held back.
    #[test]
    fn two_parts_are_one_answer(answer in "[a-z]{1,12}", seam: prop::sample::Index, held in 0usize..4) {
        let seam = seam.index(answer.len());
        let (first, held_back) = (&answer[..seam], &answer[seam..(seam + held).min(answer.len())]);
        let mut stream = role();
        for letter in first.chars() {
            stream += &said(&letter.to_string(), &ids(&letter.to_string()));
        }
        stream += &said("", &ids(held_back));
        let (forwarded, kept) = delivered(&stream);
        let tokens = kept.tokens_of_text(&ids("p"), letters).unwrap();
        prop_assert_eq!(tokens, seam);
        let mut scanner = scanner(kept.continued_behind(tokens));
        let second = format!("{}{}", role(), said(&answer[tokens..], &ids(&answer[tokens..])));
        let passed = scanner.push(&Bytes::from(second), &mut Vec::new());
        let whole = format!("{forwarded}{}", String::from_utf8(passed.to_vec()).unwrap());
        let mut text = String::new();
        let mut roles = 0;
        for line in whole.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let part: serde_json::Value = serde_json::from_str(line).unwrap();
            let delta = &part["choices"][0]["delta"];
            text += delta["content"].as_str().unwrap();
            roles += usize::from(delta.get("role").is_some());
        }
        prop_assert_eq!((text, roles), (answer.clone(), 1));
        prop_assert_eq!(scanner.delivered().unwrap().text(), &answer);
    }
}
