//! Streams of an engine that was asked for token ids, beside those of one that was not.

use super::*;
use crate::Unasked;

const WITHHOLD: TokenIds = TokenIds::Withhold(Unasked::Null);

/// What an engine does next.
#[derive(Clone, Debug)]
enum Step {
    /// The first chunk of a chat's choice, with the prompt.
    Role(u32, Vec<TokenId>),
    /// Tokens with the text that they add to the choice, which may be none.
    Chat(Generated),
    /// The same for a completion; its first chunk has the prompt.
    Text(Generated, Option<Vec<TokenId>>),
    /// Tokens that a parser swallowed: nothing is sent unless ids are asked for.
    Swallowed(u32, Vec<TokenId>),
    Usage,
    Comment,
    Done,
}

#[derive(Clone, Debug)]
struct Generated {
    choice: u32,
    text: String,
    ids: Vec<TokenId>,
    ends: bool,
    /// A private report beside it.
    has_report: bool,
}

/// Where usage and ids were asked for, and by whom.
#[derive(Clone, Copy, Debug)]
struct Asked {
    ids: bool,
    usage: bool,
    /// The engine sends private reports.
    private: bool,
}

const PRIVATE: &str =
    r#""engine_data":{"kv_cache_hit":{"prompt_tokens":7,"reused_tokens":3},"token_ids":[1,2]}"#;

// === impl Step ===

impl Step {
    fn write(&self, asked: Asked) -> Option<String> {
        let list = |ids: &[TokenId]| if asked.ids { json_list(ids) } else { "null".to_owned() };
        let line = match self {
            Self::Role(choice, prompt) => format!(
                r#"data: {{"id":"é","choices":[{{"index":{choice},"delta":{{"role":"assistant","content":""}},"finish_reason":null}}],"prompt_token_ids":{},"prompt_text":null}}"#,
                list(prompt)
            ),
            Self::Chat(generated) => generated.write(asked, |text| {
                format!(r#""delta":{{"content":{text}}},"token_ids":{}"#, list(&generated.ids))
            }),
            Self::Text(generated, prompt) => generated.write(asked, |text| {
                let prompt = prompt.as_deref().map_or_else(|| "null".to_owned(), list);
                format!(r#""text":{text},"prompt_token_ids":{prompt},"token_ids":{}"#, list(&generated.ids))
            }),
            Self::Swallowed(choice, ids) => {
                let ids = asked.ids.then(|| json_list(ids))?;
                format!(
                    r#"data: {{"choices":[{{"index":{choice},"delta":{{}},"finish_reason":null,"token_ids":{ids}}}]}}"#
                )
            }
            Self::Usage => format!("data: {}", asked.usage.then_some(USAGE)?),
            Self::Comment => ": keep-alive".to_owned(),
            Self::Done => "data: [DONE]".to_owned(),
        };
        Some(line)
    }

    /// What is seen of it where ids are read.
    fn says(&self) -> Vec<Seen> {
        match self {
            Self::Chat(generated) | Self::Text(generated, _) => {
                let choice = generated.choice;
                let mut seen = vec![];
                seen.extend((!generated.text.is_empty()).then_some(Seen::Text(choice)));
                seen.push(Seen::Ids(choice, generated.ids.clone()));
                seen.extend(generated.ends.then_some(Seen::End(choice)));
                seen
            }
            Self::Swallowed(choice, ids) => vec![Seen::Ids(*choice, ids.clone())],
            Self::Role(..) | Self::Usage | Self::Comment | Self::Done => vec![],
        }
    }
}

/// What was seen, with the ids themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Text(u32),
    Ids(u32, Vec<TokenId>),
    End(u32),
}

// === impl Generated ===

impl Generated {
    fn write(&self, asked: Asked, rest: impl FnOnce(&str) -> String) -> String {
        let text = serde_json::to_string(&self.text).unwrap();
        let finish = if self.ends { "\"length\"" } else { "null" };
        let report = if self.has_report && asked.private { format!("{PRIVATE},") } else { String::new() };
        format!(
            r#"data: {{{report}"choices":[{{"index":{},{} , "finish_reason":{finish}}}]}}"#,
            self.choice,
            rest(&text)
        )
    }
}

fn json_list(ids: &[TokenId]) -> String {
    serde_json::to_string(ids).unwrap()
}

fn any_ids() -> impl Strategy<Value = Vec<TokenId>> {
    prop::collection::vec(any::<TokenId>(), 0..5)
}

fn any_generated() -> impl Strategy<Value = Generated> {
    (0u32..3, "[^\\p{Cc}]{0,4}", any_ids(), any::<bool>(), any::<bool>())
        .prop_map(|(choice, text, ids, ends, has_report)| Generated { choice, text, ids, ends, has_report })
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (0u32..3, any_ids()).prop_map(|(choice, prompt)| Step::Role(choice, prompt)),
        3 => any_generated().prop_map(Step::Chat),
        3 => (any_generated(), prop::option::of(any_ids())).prop_map(|(piece, prompt)| Step::Text(piece, prompt)),
        2 => (0u32..3, any_ids()).prop_map(|(choice, ids)| Step::Swallowed(choice, ids)),
        1 => Just(Step::Usage),
        1 => Just(Step::Comment),
        1 => Just(Step::Done),
    ];
    prop::collection::vec(step, 0..12)
}

fn stream(steps: &[Step], asked: Asked, ending: &str) -> Vec<u8> {
    let lines = steps.iter().filter_map(|step| step.write(asked));
    lines.flat_map(|line| [line, ending.repeat(2)]).collect::<String>().into_bytes()
}

/// What went through, and what was seen of contents, ids and ends.
fn scan_ids(scanner: &mut StreamScanner, stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Vec<Seen>) {
    let (mut forwarded, mut seen, mut start) = (Vec::new(), Vec::new(), 0);
    for &cut in cuts.iter().chain([&stream.len()]) {
        let mut observations = Vec::new();
        let chunk = Bytes::copy_from_slice(&stream[start..cut]);
        forwarded.extend_from_slice(&scanner.push(&chunk, &mut observations));
        take(&observations, scanner.token_ids(), &mut seen);
        start = cut;
    }
    let mut observations = Vec::new();
    forwarded.extend_from_slice(&scanner.finish(&mut observations));
    take(&observations, scanner.token_ids(), &mut seen);
    (forwarded, seen)
}

fn take(observations: &[Observation], token_ids: &[TokenId], seen: &mut Vec<Seen>) {
    seen.extend(observations.iter().filter_map(|observation| match observation {
        Observation::Content { choice } => Some(Seen::Text(*choice)),
        Observation::Generated { choice, ids } => {
            Some(Seen::Ids(*choice, ids.unwrap().of(token_ids).to_vec()))
        }
        Observation::Finish { choice, .. } => Some(Seen::End(*choice)),
        _ => None,
    }));
}

proptest! {
    /// Whether the router also asked for usage and the engine also sends private reports, or not.
    #[test]
    fn a_client_that_asked_for_nothing_gets_the_answer_of_an_engine_that_was_asked_for_nothing(
        steps in any_steps(),
        cuts in any_cuts(),
        ending in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        usage in any::<bool>(),
        private in any::<bool>(),
    ) {
        let sent = stream(&steps, Asked { ids: true, usage: true, private }, ending);
        let mode = if usage { UsageChunk::Forward } else { UsageChunk::Withhold };
        let mut scanner = StreamScanner::with_token_ids(mode, WITHHOLD);
        let (forwarded, seen) = scan_ids(&mut scanner, &sent, &cuts_of(sent.len(), &cuts));
        let expected = stream(&steps, Asked { ids: false, usage, private: false }, ending);
        prop_assert_eq!(String::from_utf8_lossy(&forwarded), String::from_utf8_lossy(&expected));
        prop_assert_eq!(seen, steps.iter().flat_map(Step::says).collect::<Vec<_>>());
    }

    #[test]
    fn a_client_that_asked_for_ids_gets_every_byte(
        steps in any_steps(),
        cuts in any_cuts(),
        mode in prop::sample::select(vec![TokenIds::Read, TokenIds::Ignore]),
    ) {
        let sent = stream(&steps, Asked { ids: true, usage: true, private: false }, "\n");
        let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, mode);
        let (forwarded, seen) = scan_ids(&mut scanner, &sent, &cuts_of(sent.len(), &cuts));
        prop_assert_eq!(String::from_utf8_lossy(&forwarded), String::from_utf8_lossy(&sent));
        let expected = steps.iter().flat_map(Step::says);
        let read = |seen: &Seen| mode == TokenIds::Read || !matches!(seen, Seen::Ids(..));
        prop_assert_eq!(seen, expected.filter(read).collect::<Vec<_>>());
    }

    /// An engine that does not know the switch: nothing is taken out, whatever stands in its chunks.
    #[test]
    fn an_engine_without_ids_passes_unchanged(steps in any_steps(), cuts in any_cuts()) {
        let sent = stream(&steps, Asked { ids: false, usage: true, private: false }, "\n");
        let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, WITHHOLD);
        let (forwarded, _) = scan_ids(&mut scanner, &sent, &cuts_of(sent.len(), &cuts));
        prop_assert_eq!(String::from_utf8_lossy(&forwarded), String::from_utf8_lossy(&sent));
    }
}

#[test]
fn a_chunk_that_is_there_for_its_ids_goes_with_its_blank_line_only() {
    let swallowed =
        Step::Swallowed(0, vec![5]).write(Asked { ids: true, usage: true, private: true }).unwrap();
    for (sent, expected) in [
        (format!("{swallowed}\n\ndata: [DONE]\n\n"), "data: [DONE]\n\n"),
        (format!("event: message\n{swallowed}\n\ndata: [DONE]\n\n"), "event: message\n\ndata: [DONE]\n\n"),
        (format!(": ping\n\n{swallowed}\r\n\r\n: ping\n\n"), ": ping\n\n: ping\n\n"),
        (swallowed, ""),
    ] {
        let mut scanner = StreamScanner::with_token_ids(UsageChunk::Withhold, WITHHOLD);
        let (forwarded, seen) = scan_ids(&mut scanner, sent.as_bytes(), &[]);
        assert_eq!(String::from_utf8_lossy(&forwarded), expected);
        assert_eq!(seen, [Seen::Ids(0, vec![5])]);
    }
}

#[test]
fn ids_of_one_push_are_forgotten_with_the_next() {
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, TokenIds::Read);
    let mut push = |bytes: &'static str| {
        scanner.push(&Bytes::from(bytes), &mut Vec::new());
        scanner.token_ids().to_vec()
    };
    let two = "data: {\"choices\":[{\"token_ids\":[1,2]}]}\n\ndata: {\"choices\":[{\"token_ids\":[3]}]}\n\n";
    assert_eq!([push(two), push(": ping\n"), push(two)], [vec![1, 2, 3], vec![], vec![1, 2, 3]]);
}

#[test]
fn a_list_longer_than_a_line_may_be_passes_unread_in_bounded_memory() {
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, WITHHOLD);
    let piece = Bytes::from("1,".repeat(1 << 19));
    let mut sent = b"data: {\"prompt_token_ids\":[".to_vec();
    let mut got = scanner.push(&Bytes::from(sent.clone()), &mut Vec::new()).to_vec();
    for _ in 0..20 {
        sent.extend_from_slice(&piece);
        got.extend_from_slice(&scanner.push(&piece, &mut Vec::new()));
        assert!(sent.len() - got.len() <= StreamScanner::MAX_LINE_WITH_IDS);
    }
    let rest = Bytes::from_static(b"1]}\n\ndata: {\"choices\":[{\"token_ids\":[5]}]}\n\n");
    got.extend_from_slice(&scanner.push(&rest, &mut Vec::new()));
    sent.extend_from_slice(b"1]}\n\ndata: {\"choices\":[{\"token_ids\":null}]}\n\n");
    assert!(got == sent);
    assert_eq!(scanner.token_ids(), [5]);
}

#[test]
fn the_ids_of_a_prompt_of_a_million_tokens_reached_the_client() {
    let prompt: Vec<TokenId> = (100_000..1_100_000).collect();
    let (asked, quiet) =
        (Asked { ids: true, usage: true, private: false }, Asked { ids: false, usage: true, private: false });
    let steps = [Step::Role(0, prompt), Step::Done];
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, WITHHOLD);
    let sent = stream(&steps, asked, "\n");
    let cuts: Vec<usize> = (0..sent.len()).step_by(1 << 16).collect();
    let (forwarded, _) = scan_ids(&mut scanner, &sent, &cuts);
    assert_eq!(String::from_utf8_lossy(&forwarded), String::from_utf8_lossy(&stream(&steps, quiet, "\n")));
}
