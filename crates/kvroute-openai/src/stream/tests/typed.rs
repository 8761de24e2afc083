//! Whole streams of `/v1/responses` and `/v1/messages`, as vLLM sends them, under any chunking.

use super::*;

const RESPONSES: &str = r#"event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":1,"item":{"type":"message","content":[]}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":2,"delta":" é"}

event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":3,"delta":"\n\ndata: [DONE]"}

event: response.completed
data: {"type":"response.completed","sequence_number":4,"response":{"id":"resp_1","usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4},"output_tokens":2}}}

"#;

const MESSAGES: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":20,"output_tokens":0}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" é"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":4,"cache_read_input_tokens":16,"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

"#;

const CONTENT: Observation = Observation::Content { choice: 0 };
const FINISH: Observation = Observation::Finish { choice: 0, reason: FinishReason::Stop };

fn told(prompt: u64, completion: Option<u64>) -> Observation {
    Observation::Usage(TokenCounts { prompt: Some(prompt), completion })
}

/// A stream and what it says.
fn any_typed_stream() -> impl Strategy<Value = (&'static str, Vec<Observation>)> {
    let responses =
        vec![CONTENT, CONTENT, usage(9, 2), report(ReportSource::Usage, 9, 4), FINISH, Observation::Done];
    let messages = vec![
        told(20, None),
        CONTENT,
        told(20, Some(1)),
        report(ReportSource::AnthropicUsage, 20, 16),
        FINISH,
        Observation::Done,
    ];
    prop::sample::select(vec![(RESPONSES, responses), (MESSAGES, messages)])
}

proptest! {
    #[test]
    fn streams_of_other_apis_pass_unchanged_and_are_understood_under_any_chunking(
        (stream, says) in any_typed_stream(),
        cuts in any_cuts(),
        ending in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        mode in prop::sample::select(vec![UsageChunk::Forward, UsageChunk::Withhold]),
    ) {
        let stream = stream.replace('\n', ending).into_bytes();
        let (bytes, observations) = scan(mode, &stream, &cuts_of(stream.len(), &cuts));
        prop_assert_eq!(bytes, stream);
        prop_assert_eq!(observations, says);
    }

    /// What is missing of a stream was never said: neither its end nor anything else.
    #[test]
    fn a_stream_that_breaks_off_has_not_ended(
        (stream, says) in any_typed_stream(),
        end in any::<prop::sample::Index>(),
    ) {
        let last_line = stream.trim_end().len() - 1;
        let broken = &stream.as_bytes()[..end.index(last_line)];
        let mut scanner = StreamScanner::new(UsageChunk::Forward);
        let mut observations = Vec::new();
        scanner.push(&Bytes::copy_from_slice(broken), &mut observations);
        scanner.finish(&mut observations);
        prop_assert!(!scanner.is_done());
        prop_assert!(says.starts_with(&observations), "{observations:?}");
        prop_assert!(!observations.contains(&FINISH));
    }
}

#[test]
fn the_error_of_a_numbered_stream_has_the_next_number() {
    let error = ErrorBody::new("upstream_error", "worker broke off");
    let mut scanner = StreamScanner::new(UsageChunk::Forward);
    let start = RESPONSES.find("event: response.completed").unwrap();
    scanner.push(&Bytes::from_static(&RESPONSES.as_bytes()[..start]), &mut Vec::new());
    assert_eq!(scanner.response_id(), Some("resp_1"));
    let event = scanner.break_off(&error, Endpoint::Responses);
    assert_eq!(event, error.to_event(Endpoint::Responses, 4));
}

#[test]
fn a_private_report_in_a_typed_event_is_taken_out_and_counted() {
    let private = r#""engine_data":{"kv_cache_hit":{"prompt_tokens":7,"reused_tokens":3,"tier":"host"}}"#;
    let first = r#"data: {"type":"response.created","#;
    let stream = RESPONSES.replacen(first, &format!("{first}{private},"), 1);
    let (bytes, observations) = scan(UsageChunk::Forward, stream.as_bytes(), &[]);
    assert_eq!(String::from_utf8(bytes).unwrap(), RESPONSES);
    assert_eq!(observations[0], report(ReportSource::EngineData, 7, 3));
}
