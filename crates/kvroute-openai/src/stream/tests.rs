use kvroute_core::{Figure, ReportSource, WorkerReport};
use proptest::prelude::*;

use super::*;
use crate::{FinishReason, TokenCounts};

mod token_ids;
mod typed;

/// What a whole stream gave: the forwarded bytes and the observations.
fn scan(usage_chunk: UsageChunk, stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Vec<Observation>) {
    let mut scanner = StreamScanner::new(usage_chunk);
    let mut forwarded = Vec::new();
    let mut observations = Vec::new();
    let mut start = 0;
    for &cut in cuts.iter().chain([&stream.len()]) {
        let chunk = Bytes::copy_from_slice(&stream[start..cut]);
        forwarded.extend_from_slice(&scanner.push(&chunk, &mut observations));
        start = cut;
    }
    forwarded.extend_from_slice(&scanner.finish(&mut observations));
    (forwarded, observations)
}

fn forwarded(usage_chunk: UsageChunk, stream: &str) -> String {
    String::from_utf8(scan(usage_chunk, stream.as_bytes(), &[]).0).unwrap()
}

const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}"#;

/// One event of a generated stream: its lines, what is left of them, and what they say.
#[derive(Clone, Debug)]
struct Event {
    lines: Vec<String>,
    left: Vec<String>,
    says: Vec<Observation>,
}

impl Event {
    fn kept(line: &str, says: Vec<Observation>) -> Self {
        Self { lines: vec![line.to_owned()], left: vec![line.to_owned()], says }
    }

    fn removed(line: &str, says: Vec<Observation>) -> Self {
        Self { lines: vec![line.to_owned()], left: Vec::new(), says }
    }
}

fn report(source: ReportSource, prompt: u64, reused: u64) -> Observation {
    Observation::Report(WorkerReport { source, prompt: Figure::Count(prompt), reused: Figure::Count(reused) })
}

fn usage(prompt: u64, completion: u64) -> Observation {
    Observation::Usage(TokenCounts { prompt: Some(prompt), completion: Some(completion) })
}

fn any_event(usage_chunk: UsageChunk) -> impl Strategy<Value = Event> {
    let usage_says = vec![usage(9, 2), report(ReportSource::Usage, 9, 4)];
    let usage_line = format!("data: {USAGE}");
    let usage_event = match usage_chunk {
        UsageChunk::Forward => Event::kept(&usage_line, usage_says),
        UsageChunk::Withhold => Event::removed(&usage_line, usage_says),
    };
    let private = r#"{"kv_cache_hit":{"prompt_tokens":7,"reused_tokens":3}}"#;
    let private_says = vec![report(ReportSource::EngineData, 7, 3)];
    let content = (0u32..3, "[^\\p{Cc}]{1,6}").prop_map(|(choice, text)| {
        let text = serde_json::to_string(&text).unwrap();
        let line = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{text}}},\"index\":{choice}}}]}}");
        Event::kept(&line, vec![Observation::Content { choice }])
    });
    let fixed = prop::sample::select(vec![
        usage_event,
        Event::kept(
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}],\"usage\":null}",
            vec![],
        ),
        Event::kept(
            "data:{\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
            vec![Observation::Finish { choice: 0, reason: FinishReason::Stop }, usage(1, 2)],
        ),
        Event {
            lines: vec![format!("data:  {{\"id\":\"é\",\"engine_data\":{private}, \"n\":1.50}} ")],
            left: vec!["data:  {\"id\":\"é\",\"n\":1.50} ".to_owned()],
            says: private_says.clone(),
        },
        Event::removed(&format!("data: {{\"engine_data\":{private}}}"), private_says),
        Event::kept(": keep-alive", vec![]),
        Event::kept("data: {\"choices\":[{\"index\":0,\"text\":\"tru", vec![]),
        Event::kept("garbage \u{1F980} without a field", vec![]),
        Event::kept("data", vec![]),
        Event::kept("data: {\"error\":{\"message\":\"x\"}}", vec![Observation::Error]),
        Event::kept("data: [DONE]", vec![Observation::Done]),
    ]);
    prop_oneof![2 => content, 3 => fixed]
}

/// A stream, what must be left of it and what it says.
fn any_stream(usage_chunk: UsageChunk) -> impl Strategy<Value = (Vec<u8>, Vec<u8>, Vec<Observation>)> {
    let events = prop::collection::vec(any_event(usage_chunk), 0..12);
    (events, prop::sample::select(vec!["\n", "\r\n", "\r"])).prop_map(|(events, ending)| {
        let write = |lines: &[String]| -> String {
            let text: String = lines.iter().map(|line| format!("{line}{ending}")).collect();
            if lines.is_empty() { text } else { text + ending }
        };
        let stream: String = events.iter().map(|event| write(&event.lines)).collect();
        let left: String = events.iter().map(|event| write(&event.left)).collect();
        let says = events.into_iter().flat_map(|event| event.says).collect();
        (stream.into_bytes(), left.into_bytes(), says)
    })
}

fn cuts_of(length: usize, wanted: &[prop::sample::Index]) -> Vec<usize> {
    let mut cuts: Vec<usize> = wanted.iter().map(|cut| cut.index(length + 1)).collect();
    cuts.sort_unstable();
    cuts
}

fn any_cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..30)
}

proptest! {
    #[test]
    fn the_router_takes_out_what_is_its_own_under_any_chunking(
        (stream, left, says) in any_stream(UsageChunk::Withhold),
        cuts in any_cuts(),
    ) {
        let (bytes, observations) = scan(UsageChunk::Withhold, &stream, &cuts_of(stream.len(), &cuts));
        prop_assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&left));
        prop_assert_eq!(observations, says);
    }

    #[test]
    fn a_client_that_asked_for_usage_gets_it_under_any_chunking(
        (stream, left, says) in any_stream(UsageChunk::Forward),
        cuts in any_cuts(),
    ) {
        let (bytes, observations) = scan(UsageChunk::Forward, &stream, &cuts_of(stream.len(), &cuts));
        prop_assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&left));
        prop_assert_eq!(observations, says);
    }

    #[test]
    fn chunking_never_changes_the_outcome(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "data:", "data: ", "dat", USAGE, "{\"choices\":[],", "\"usage\":{}}", "[DONE]", "\r", "\n", "\r\n",
                "\n\n", "{\"engine_data\":{},\"a\":1}", "é", "x",
            ]),
            0..16,
        ),
        cuts in any_cuts(),
    ) {
        let stream = pieces.concat().into_bytes();
        let whole = scan(UsageChunk::Withhold, &stream, &[]);
        prop_assert_eq!(scan(UsageChunk::Withhold, &stream, &cuts_of(stream.len(), &cuts)), whole);
    }

    #[test]
    fn bytes_without_anything_to_take_out_pass_unchanged(
        stream in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r')], 0..200),
        cuts in any_cuts(),
    ) {
        let (bytes, _) = scan(UsageChunk::Withhold, &stream, &cuts_of(stream.len(), &cuts));
        prop_assert_eq!(bytes, stream);
    }

    #[test]
    fn an_error_event_stands_on_its_own_wherever_the_stream_broke(
        (stream, _, _) in any_stream(UsageChunk::Withhold),
        end in any::<prop::sample::Index>(),
        cuts in any_cuts(),
        endpoint in prop::sample::select(Endpoint::ALL.to_vec()),
    ) {
        let broken = &stream[..end.index(stream.len() + 1)];
        let mut scanner = StreamScanner::new(UsageChunk::Withhold);
        let mut forwarded = Vec::new();
        let mut start = 0;
        for cut in cuts_of(broken.len(), &cuts).into_iter().chain([broken.len()]) {
            let chunk = Bytes::copy_from_slice(&broken[start..cut]);
            forwarded.extend_from_slice(&scanner.push(&chunk, &mut Vec::new()));
            start = cut;
        }
        let error = ErrorBody::new("upstream_error", "worker broke off");
        forwarded.extend_from_slice(&scanner.break_off(&error, endpoint));
        let text = String::from_utf8_lossy(&forwarded).replace("\r\n", "\n").replace('\r', "\n");
        let event = String::from_utf8(error.to_event(endpoint, 0).to_vec()).unwrap();
        let before = text.strip_suffix(&event).unwrap();
        prop_assert!(before.is_empty() || before.ends_with("\n\n") , "{before:?}");
    }
}

#[test]
fn ten_thousand_tokens_pass_byte_identical_but_for_the_injected_chunk() {
    let mut asked = String::from(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
    );
    for token in 0..10_000 {
        asked += &format!(
            "data: {{\"id\":\"chatcmpl-9\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" t{token}é\"}},\"finish_reason\":null}}]}}\n\n"
        );
    }
    let usage_chunk = format!("data: {USAGE}\n\n");
    let end = "data: [DONE]\n\n";
    let with_usage = format!("{asked}{usage_chunk}{end}");
    let without_usage = format!("{asked}{end}");
    let cuts: Vec<usize> = (1..with_usage.len()).step_by(1_447).collect();
    for (mode, expected) in [(UsageChunk::Forward, &with_usage), (UsageChunk::Withhold, &without_usage)] {
        let (bytes, observations) = scan(mode, with_usage.as_bytes(), &cuts);
        assert!(bytes == expected.as_bytes(), "{mode:?}");
        let content = observations.iter().filter(|seen| matches!(seen, Observation::Content { .. })).count();
        assert_eq!(content, 10_000);
        let rest = &observations[10_000..];
        assert_eq!(rest, [usage(9, 2), report(ReportSource::Usage, 9, 4), Observation::Done]);
    }
}

#[test]
fn whole_lines_are_forwarded_without_a_copy() {
    let chunk = Bytes::from_static(b"data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\ndata: [DONE]\n\n");
    let mut scanner = StreamScanner::new(UsageChunk::Withhold);
    let out = scanner.push(&chunk, &mut Vec::new());
    assert_eq!(out.as_ptr(), chunk.as_ptr());
    assert_eq!(out.len(), chunk.len());
    assert!(scanner.is_done());
}

#[test]
fn only_an_unfinished_data_line_is_held_back() {
    let mut scanner = StreamScanner::new(UsageChunk::Withhold);
    let mut push = |bytes: &'static str| scanner.push(&Bytes::from(bytes), &mut Vec::new());
    assert_eq!(push(": ping"), ": ping");
    assert_eq!(push(" more\ndata: {\"a\""), " more\n");
    assert_eq!(push(":1}"), "");
    assert_eq!(push("\n\nda"), "data: {\"a\":1}\n\n");
    assert_eq!(push("x"), "dax");
    assert_eq!(push("y\n"), "y\n");
}

#[test]
fn an_endless_line_passes_unread_in_bounded_memory() {
    let mut scanner = StreamScanner::new(UsageChunk::Withhold);
    let mut observations = Vec::new();
    let piece = Bytes::from(vec![b'x'; 1 << 16]);
    let mut sent = b"data: ".to_vec();
    let mut got = scanner.push(&Bytes::from_static(b"data: "), &mut observations).to_vec();
    for _ in 0..40 {
        sent.extend_from_slice(&piece);
        got.extend_from_slice(&scanner.push(&piece, &mut observations));
        assert!(sent.len() - got.len() <= StreamScanner::MAX_LINE, "held {}", sent.len() - got.len());
    }
    let rest = format!("\n\ndata: {USAGE}\n\ndata: [DONE]\n\n");
    got.extend_from_slice(&scanner.push(&Bytes::from(rest), &mut observations));
    sent.extend_from_slice(b"\n\ndata: [DONE]\n\n");
    assert!(got == sent);
    assert_eq!(observations.len(), 3, "the lines behind it are read again");
}

#[test]
fn a_usage_chunk_inside_a_larger_event_leaves_its_blank_line() {
    let stream = format!("event: message\ndata: {USAGE}\n\ndata: [DONE]\n\n");
    assert_eq!(forwarded(UsageChunk::Withhold, &stream), "event: message\n\ndata: [DONE]\n\n");
}

#[test]
fn usage_that_an_engine_sends_anyway_passes() {
    for chunk in [
        r#"{"choices":[{"index":0,"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#,
        r#"{"choices":[],"usage":null}"#,
    ] {
        let stream = format!("data: {chunk}\n\n");
        assert_eq!(forwarded(UsageChunk::Withhold, &stream), stream);
    }
}

#[test]
fn a_stream_that_ends_in_the_middle_of_a_line_still_counts_what_is_whole() {
    let (bytes, observations) = scan(UsageChunk::Withhold, format!("data: {USAGE}").as_bytes(), &[]);
    assert_eq!(bytes, b"");
    assert_eq!(observations.len(), 2);
    let (bytes, observations) = scan(UsageChunk::Withhold, &format!("data: {USAGE}").as_bytes()[..80], &[]);
    assert_eq!(bytes.len(), 80);
    assert_eq!(observations, []);
}
