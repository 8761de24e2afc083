//! Parts of `/v1/responses` and `/v1/messages`.

use super::*;

fn counts(prompt: Option<u64>, completion: Option<u64>) -> Observation {
    Observation::Usage(TokenCounts { prompt, completion })
}

fn said(source: ReportSource, prompt: Figure, reused: Figure) -> Observation {
    Observation::Report(WorkerReport { source, prompt, reused })
}

fn finish(reason: FinishReason) -> Observation {
    Observation::Finish { choice: 0, reason }
}

/// All parts of one stream.
fn observe_all(parts: &[&str]) -> Vec<Observation> {
    let (mut reader, mut observations) = (PartReader::default(), Vec::new());
    for part in parts {
        reader.read(part, &mut observations).unwrap();
    }
    observations
}

#[test]
fn input_tokens_hold_the_cached_ones_where_their_details_stand_beside_them() {
    let responses = |details: &str| format!(r#"{{"usage":{{"input_tokens":9,"output_tokens":2{details}}}}}"#);
    let all = observe(&responses(r#","input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0}"#));
    assert_eq!(all, [counts(Some(9), Some(2)), said(ReportSource::Usage, N(9), N(4))]);
    let excluding = observe(&responses(r#","cache_read_input_tokens":4"#));
    assert_eq!(excluding, [counts(Some(13), Some(2)), said(ReportSource::AnthropicUsage, N(13), N(4))]);
    let both = r#","input_tokens_details":{"cached_tokens":4},"cache_read_input_tokens":4"#;
    assert_eq!(observe(&responses(both)), all, "the details say which is meant");
    for silent in ["", r#","input_tokens_details":null"#, r#","input_tokens_details":{}"#] {
        assert_eq!(observe(&responses(silent)), [counts(Some(9), Some(2))], "{silent}");
    }
    let null = observe(&responses(r#","input_tokens_details":{"cached_tokens":null}"#));
    assert_eq!(null[1], said(ReportSource::Usage, N(9), Figure::Invalid));
    let null = observe(&responses(r#","cache_read_input_tokens":null"#));
    assert_eq!(null[0], counts(Some(9), Some(2)));
    assert_eq!(figures(&responses(r#","cache_read_input_tokens":null"#)).2, Figure::Invalid);
}

#[test]
fn the_last_event_of_a_response_tells_usage_and_end() {
    let usage = r#""usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}"#;
    let last = |kind: &str, more: &str| {
        observe(&format!(
            r#"{{"response":{{"id":"resp_1","object":"response",{usage}{more}}},"type":"response.{kind}"}}"#
        ))
    };
    let counted = [counts(Some(9), Some(2)), said(ReportSource::Usage, N(9), N(4))];
    let cut = r#","incomplete_details":{"reason":"max_output_tokens"}"#;
    for (kind, more, reason) in [
        ("completed", "", FinishReason::Stop),
        ("completed", cut, FinishReason::Length),
        ("incomplete", cut, FinishReason::Length),
        ("incomplete", r#","incomplete_details":{"reason":"content_filter"}"#, FinishReason::Other),
        ("cancelled", "", FinishReason::Aborted),
    ] {
        let expected = [&counted[..], &[finish(reason), Observation::Done]].concat();
        assert_eq!(last(kind, more), expected, "{kind}{more}");
    }
    let failed = [&counted[..], &[Observation::Error, Observation::Done]].concat();
    assert_eq!(last("failed", r#","error":{"code":"server_error"}"#), failed);
    for under_way in ["created", "in_progress", "queued"] {
        assert_eq!(last(under_way, r#","usage":null"#), [], "{under_way}");
    }
}

#[test]
fn every_kind_of_delta_with_something_in_it_is_content() {
    let content = [Observation::Content { choice: 0 }];
    for kind in ["output_text", "reasoning_text", "refusal", "function_call_arguments", "mcp_call_arguments"]
    {
        let delta = |text: &str| {
            observe(&format!(r#"{{"type":"response.{kind}.delta","delta":{text},"item_id":"i"}}"#))
        };
        assert_eq!(delta("\" a\""), content, "{kind}");
        assert_eq!(delta("\"\""), [], "{kind}");
    }
    for delta in [
        r#"{"type":"text_delta","text":"a"}"#,
        r#"{"type":"thinking_delta","thinking":"a"}"#,
        r#"{"type":"input_json_delta","partial_json":"{"}"#,
    ] {
        let event = |delta: &str| format!(r#"{{"type":"content_block_delta","index":0,"delta":{delta}}}"#);
        assert_eq!(observe(&event(delta)), content, "{delta}");
        let empty = delta.replace("\"a\"", "\"\"").replace("\"{\"", "\"\"");
        assert_eq!(observe(&event(&empty)), [], "{empty}");
    }
    assert_eq!(
        observe(r#"{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"s"}}"#),
        []
    );
    assert_eq!(observe(r#"{"type":"response.output_text.done","text":"a b"}"#), []);
}

#[test]
fn the_start_of_a_call_is_content_because_its_name_was_generated() {
    let content = [Observation::Content { choice: 0 }];
    let block = |kind: &str| {
        observe(&format!(
            r#"{{"type":"content_block_start","content_block":{{"type":"{kind}","name":"f","input":{{}}}}}}"#
        ))
    };
    assert_eq!((block("tool_use"), block("text"), block("thinking")), (content.to_vec(), vec![], vec![]));
    let item = |event: &str, kind: &str| {
        observe(&format!(
            r#"{{"item":{{"type":"{kind}","name":"f"}},"type":"response.output_item.{event}"}}"#
        ))
    };
    assert_eq!(item("added", "function_call"), content);
    assert_eq!((item("added", "message"), item("done", "function_call")), (vec![], vec![]));
}

#[test]
fn a_message_tells_its_counts_in_pieces() {
    let start =
        r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":20,"output_tokens":1}}}"#;
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},
        "usage":{"input_tokens":4,"cache_read_input_tokens":16,"output_tokens":6}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    assert_eq!(
        observe_all(&[start, delta, stop]),
        [
            counts(Some(20), None),
            counts(Some(20), Some(6)),
            said(ReportSource::AnthropicUsage, N(20), N(16)),
            finish(FinishReason::Length),
            Observation::Done,
        ]
    );
    let early =
        r#"{"type":"message_start","message":{"usage":{"cache_read_input_tokens":14,"input_tokens":1}}}"#;
    let short = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}"#;
    assert_eq!(
        observe_all(&[early, short, stop]),
        [
            counts(Some(15), None),
            said(ReportSource::AnthropicUsage, N(15), N(14)),
            counts(Some(15), Some(4)),
            finish(FinishReason::Stop),
            Observation::Done,
        ]
    );
    let half =
        r#"{"type":"message_start","message":{"usage":{"input_tokens":7,"cache_creation_input_tokens":2}}}"#;
    let other = r#"{"type":"message_delta","delta":{},"usage":{"cache_read_input_tokens":0}}"#;
    assert_eq!(observe_all(&[half, other])[2], said(ReportSource::AnthropicUsage, N(9), N(0)));
}

#[test]
fn zeros_before_the_engine_has_counted_are_no_report() {
    let start =
        r#"{"type":"message_start","message":{"usage":{"input_tokens":0,"cache_read_input_tokens":0}}}"#;
    let delta = r#"{"type":"message_delta","usage":{"input_tokens":0,"cache_read_input_tokens":16,"output_tokens":1}}"#;
    assert_eq!(
        observe_all(&[start, delta]),
        [counts(None, None), counts(Some(16), Some(1)), said(ReportSource::AnthropicUsage, N(16), N(16)),]
    );
}

#[test]
fn whole_answers_are_known_by_what_they_call_themselves() {
    let message =
        r#"{"id":"c","type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"tool_use"}"#;
    let content = Observation::Content { choice: 0 };
    assert_eq!(observe(message), [content, finish(FinishReason::ToolCalls)]);
    let response = |status: &str| {
        observe(&format!(r#"{{"object":"response","status":"{status}","output":[{{"x":1}}],"error":null}}"#))
    };
    assert_eq!(response("completed"), [content, finish(FinishReason::Stop)]);
    assert_eq!(response("incomplete"), [content, finish(FinishReason::Other)]);
    assert_eq!(response("failed"), [content, Observation::Error]);
    assert_eq!(response("in_progress"), [content]);
}

#[test]
fn errors_of_both_apis_are_seen() {
    for error in [
        r#"{"type":"error","error":{"type":"api_error","message":"x"}}"#,
        r#"{"type":"error","code":"server_error","message":"x"}"#,
    ] {
        assert!(observe(error).contains(&Observation::Error), "{error}");
    }
    assert_eq!(observe(r#"{"type":"ping"}"#), []);
}

#[test]
fn the_id_of_a_response_is_kept_and_that_of_nothing_else() {
    let id = |parts: &[&str]| {
        let mut reader = PartReader::default();
        parts.iter().for_each(|part| assert!(reader.read(part, &mut Vec::new()).is_some()));
        reader.response_id().map(str::to_owned)
    };
    assert_eq!(id(&[r#"{"id":"resp_1","object":"response"}"#]).as_deref(), Some("resp_1"));
    let created = r#"{"type":"response.created","response":{"id":"resp_\u0032"}}"#;
    assert_eq!(id(&[created, r#"{"response":{"id":"other"}}"#]).as_deref(), Some("resp_2"));
    for other in [
        r#"{"id":"chatcmpl-1","object":"chat.completion"}"#,
        r#"{"type":"message_start","message":{"id":"msg_1"}}"#,
        r#"{"object":"response","id":7}"#,
        r#"{"object":"response"}"#,
    ] {
        assert_eq!(id(&[other]), None, "{other}");
    }
}

#[test]
fn progress_tells_the_whole_prompt_before_it_is_computed() {
    let early = r#"{"timings":{"cache_n":169,"prompt_n":0},"prompt_progress":{"total":178,"cache":169,"processed":169}}"#;
    assert_eq!(figures(early), (ReportSource::Timings, N(178), N(169)));
    assert_eq!(report(r#"{"prompt_progress":{"total":178,"processed":16}}"#), None);
    assert_eq!(report(r#"{"prompt_progress":null}"#), None);
}
