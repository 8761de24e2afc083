use super::*;
use crate::Unasked;

/// A part as engines write them, with its text and what stands behind the text.
fn part(index: u32, text: &str, behind: &str) -> String {
    format!(
        r#"{{"id":"c-1","object":"chat.completion.chunk","created":1,"choices":[{{"index":{index},"delta":{{"content":"{text}"{behind}"#
    )
}

const PLAIN: &str = r#"},"finish_reason":null}]}"#;

fn behind() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        PLAIN,
        r#"},"finish_reason":"stop"}]}"#,
        r#"},"finish_reason":null}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#,
        r#","role":"assistant"},"finish_reason":null}]}"#,
        r#","reasoning":"hm"},"finish_reason":null}]}"#,
        r#"},"token_ids":[7],"finish_reason":null}]}"#,
        r#"},"finish_reason":null}],"error":{"message":"m"}}"#,
        r#"},"finish_reason":null}],"sequence_number":4}"#,
        r#"},"finish_reason":null},{"index":2,"delta":{"content":"b"}}]}"#,
        r#"},"finish_reason":null}]"#,
    ])
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ a-zé日\\\\\"nu0-9{}]{0,6}",
        1 => prop::sample::select(vec!["\\n", "\\\"", "\\u00e9", "\\ud800", "\\x", "\u{1}", "a\",\"content\":\"", ""])
            .prop_map(str::to_owned),
    ]
}

proptest! {
    /// The usage of a message adds up over its parts, so each part is read behind those that brought any.
    #[test]
    fn a_part_says_the_same_whether_it_is_compared_or_read(
        parts in prop::collection::vec((text(), behind()), 1..12),
        index in 0u32..2,
        mode in prop::sample::select(vec![TokenIds::Ignore, TokenIds::Read, TokenIds::Withhold(Unasked::Absent)]),
        keeps in any::<bool>(),
    ) {
        let new = || PartReader::new(mode);
        let start = || if keeps { new().keeping(Delivered::new(None)) } else { new() };
        let (mut comparing, mut reading) = (start(), start());
        for (text, behind) in &parts {
            let text = part(index, text, behind);
            reading.likeness.forget();
            let (mut compared, mut read) = (Vec::new(), Vec::new());
            let parts = match comparing.is_alike(text.as_bytes(), &mut compared) {
                true => (Some(Part::default()), reading.read(&text, &mut read)),
                false => (comparing.read(&text, &mut compared), reading.read(&text, &mut read)),
            };
            prop_assert_eq!(parts.0, parts.1, "{}", text);
            prop_assert_eq!(&compared, &read, "{}", text);
            prop_assert_eq!(format!("{:?}", comparing.delivered()), format!("{:?}", reading.delivered()));
            prop_assert_eq!(comparing.next_sequence_number(), reading.next_sequence_number());
        }
    }
}

#[test]
fn parts_that_differ_in_their_text_alone_are_compared() {
    let mut reader = PartReader::default();
    reader.read(&part(1, " word", PLAIN), &mut Vec::new()).unwrap();
    let choice_of = |text: &str| reader.likeness.choice_of(part(1, text, PLAIN).as_bytes());
    assert_eq!(choice_of(" \\n é"), Some(1));
    assert_eq!(choice_of(""), None, "nothing was generated");
    assert_eq!(choice_of("\\x"), None, "no string");
    let no_text: Vec<_> =
        part(1, "?", PLAIN).bytes().map(|byte| if byte == b'?' { 0xc3 } else { byte }).collect();
    assert_eq!(reader.likeness.choice_of(&no_text), None, "no UTF-8");
}
