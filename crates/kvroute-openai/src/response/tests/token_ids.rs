//! Generated token ids of a part.

use super::*;
use crate::{TokenSpan, Unasked};

const WITHHOLD: TokenIds = TokenIds::Withhold(Unasked::Null);

/// What a part says of ids, contents and ends, the ids written out.
fn said(text: &str) -> Vec<String> {
    let (mut reader, mut observations) = (PartReader::new(TokenIds::Read), Vec::new());
    reader.read(text, &mut observations).unwrap();
    let ids = reader.token_ids();
    let tell = |observation: &Observation| match observation {
        Observation::Content { choice } => format!("{choice}: text"),
        Observation::Generated { choice, ids: Some(span) } => format!("{choice}: {:?}", span.of(ids)),
        Observation::Generated { choice, ids: None } => format!("{choice}: unreadable"),
        Observation::Finish { choice, .. } => format!("{choice}: end"),
        other => format!("{other:?}"),
    };
    observations.iter().map(tell).collect()
}

#[test]
fn ids_stand_between_the_text_and_the_end_of_their_choice() {
    for (text, expected) in [
        (
            r#"{"choices":[{"finish_reason":"length","token_ids":[7, 4294967295],"index":1,"text":"a"}]}"#,
            &["1: text", "1: [7, 4294967295]", "1: end"][..],
        ),
        (
            r#"{"choices":[{"token_ids":[1],"index":0,"delta":{"content":"a"}},{"token_ids":[2,3],"index":4}]}"#,
            &["0: text", "0: [1]", "4: [2, 3]"],
        ),
        (r#"{"choices":[{"index":0,"text":"a","token_ids":null}]}"#, &["0: text"]),
        (r#"{"choices":[{"index":0,"text":"a"}],"prompt_token_ids":[5]}"#, &["0: text"]),
        (r#"{"choices":[{"index":0,"text":"","token_ids":[]}]}"#, &["0: []"]),
        (r#"{"choices":[{"index":0,"tok\u0065n_ids":[9]}]}"#, &["0: [9]"]),
        (r#"{"choices":[{"index":0,"token_ids":[7 , 8 ]}]}"#, &["0: [7, 8]"]),
        (r#"{"choices":[{"index":0,"token_ids":[9],"token_ids":[8, 7]}]}"#, &["0: [8, 7]"]),
    ] {
        assert_eq!(said(text), expected, "{text}");
    }
}

#[test]
fn a_list_with_one_odd_id_is_no_list() {
    for odd in ["-1", "1.0", "1e3", "4294967296", "\"1\"", "null", "[1]", "{}", "true"] {
        let text = format!(r#"{{"choices":[{{"index":2,"token_ids":[5,{odd},6]}}]}}"#);
        assert_eq!(said(&text), ["2: unreadable"], "{text}");
        let behind = format!(r#"{{"choices":[{{"token_ids":[5,{odd}]}},{{"index":1,"token_ids":[6]}}]}}"#);
        assert_eq!(said(&behind), ["0: unreadable", "1: [6]"], "{behind}");
    }
    let mut reader = PartReader::new(TokenIds::Read);
    reader.read(r#"{"choices":[{"token_ids":[5 ,6,-1]}]}"#, &mut Vec::new()).unwrap();
    assert_eq!(reader.token_ids(), [0; 0], "what was read of it is forgotten");
    for odd in ["1", "\"5,6\"", "{}", "true"] {
        assert_eq!(said(&format!(r#"{{"choices":[{{"token_ids":{odd}}}]}}"#)), ["0: unreadable"], "{odd}");
    }
}

#[test]
fn private_ids_are_those_of_the_only_choice() {
    let choice = r#"{"index":3,"text":"a","finish_reason":"stop"}"#;
    let private = r#""engine_data":{"x":1,"token_ids":[4,5]}"#;
    for text in
        [format!(r#"{{{private},"choices":[{choice}]}}"#), format!(r#"{{"choices":[{choice}],{private}}}"#)]
    {
        assert_eq!(said(&text), ["3: text", "3: [4, 5]", "3: end"], "{text}");
    }
    for (choices, expected) in [
        (format!("[{choice},{choice}]"), &["3: text", "3: end", "3: text", "3: end"][..]),
        ("[]".to_owned(), &[]),
        ("{}".to_owned(), &[]),
        (r#"[{"index":3,"token_ids":[6]}]"#.to_owned(), &["3: [6]"]),
        (r#"[{"index":3,"token_ids":7}]"#.to_owned(), &["3: unreadable"]),
    ] {
        assert_eq!(said(&format!(r#"{{"choices":{choices},{private}}}"#)), expected, "{choices}");
    }
    assert_eq!(said(&format!("{{{private}}}")), [""; 0]);
    let odd = r#"{"choices":[{"index":1,"text":"a"}],"engine_data":{"token_ids":[1,-1]}}"#;
    assert_eq!(said(odd), ["1: text", "1: unreadable"]);
}

#[test]
fn nothing_is_read_where_nobody_wants_it() {
    let text =
        r#"{"choices":[{"index":0,"token_ids":[1]}],"engine_data":{"token_ids":[1]},"prompt_token_ids":[2]}"#;
    let (mut reader, mut observations) = (PartReader::default(), Vec::new());
    reader.read(text, &mut observations).unwrap();
    assert_eq!((observations, reader.token_ids()), (vec![], &[][..]));
    let expected = r#"{"choices":[{"index":0,"token_ids":[1]}],"prompt_token_ids":[2]}"#;
    assert_eq!(edited(TokenIds::Ignore, text).unwrap(), expected);
    assert_eq!(edited(TokenIds::Read, text).unwrap(), expected);
}

#[test]
fn withheld_lists_become_null_and_nothing_else_changes() {
    for (text, expected) in [
        (
            r#"{"id":"é", "choices":[ {"index":0,"text":"a","token_ids": [1, 2] ,"prompt_token_ids":[3]}]}"#,
            r#"{"id":"é", "choices":[ {"index":0,"text":"a","token_ids": null ,"prompt_token_ids":null}]}"#,
        ),
        (
            r#"{"engine_data":{"token_ids":[1]},"choices":[{"token_ids":[]}], "prompt_token_ids":[-1,"x"], "engine_data":2}"#,
            r#"{"choices":[{"token_ids":null}], "prompt_token_ids":null}"#,
        ),
        (
            r#"{"prompt_token_ids":"x","choices":[{"token_ids":7,"token_ids":null,"delta":{"token_ids":[1]}}],"token_ids":[1]}"#,
            r#"{"prompt_token_ids":"x","choices":[{"token_ids":7,"token_ids":null,"delta":{"token_ids":[1]}}],"token_ids":[1]}"#,
        ),
        (r#"{"prompt_token_ids":[1],"engine_data":{}}"#, r#"{"prompt_token_ids":null}"#),
    ] {
        assert_eq!(edited(WITHHOLD, text).unwrap(), expected, "{text}");
    }
    assert_eq!(edited(WITHHOLD, r#"{"engine_data":{"token_ids":[1]}}"#), None);
}

#[test]
fn withheld_lists_are_gone_where_an_engine_leaves_them_out_unasked() {
    for (text, expected) in [
        (
            r#"{"prompt_token_ids":[1],"choices":[ {"index":0,"token_ids": [1, 2] ,"text":"a","prompt_token_ids":[3]}]}"#,
            r#"{"choices":[ {"index":0,"text":"a"}]}"#,
        ),
        (r#"{"choices":[{"token_ids":[1],"prompt_token_ids":[2]},{}]}"#, r#"{"choices":[{},{}]}"#),
        (
            r#"{"engine_data":1,"choices":[{"a":"\"","token_ids":[1],"prompt_token_ids":[]}],"engine_data":2}"#,
            r#"{"choices":[{"a":"\""}]}"#,
        ),
        (
            r#"{"choices":[{"token_ids":null}],"prompt_token_ids":7}"#,
            r#"{"choices":[{"token_ids":null}],"prompt_token_ids":7}"#,
        ),
    ] {
        assert_eq!(edited(TokenIds::Withhold(Unasked::Absent), text).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_part_that_breaks_off_leaves_no_ids() {
    let mut reader = PartReader::new(WITHHOLD);
    let mut observations = Vec::new();
    reader.read(r#"{"choices":[{"token_ids":[1]}]}"#, &mut observations).unwrap();
    assert!(reader.read(r#"{"choices":[{"token_ids":[2]}],"#, &mut observations).is_none());
    assert_eq!(reader.token_ids(), [1]);
    let ids = Some(TokenSpan::from(0..1));
    assert_eq!(observations, [Observation::Generated { choice: 0, ids }]);
}

#[test]
fn only_a_chunk_without_any_news_is_there_for_its_ids() {
    let is_ids_only =
        |mode, text: &str| PartReader::new(mode).read(text, &mut Vec::new()).unwrap().is_ids_only;
    let empty =
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":null,"token_ids":[1]}],"usage":{"a":1}}"#;
    assert!(is_ids_only(WITHHOLD, empty));
    assert!(is_ids_only(WITHHOLD, &empty.replace("[1]", "[]")));
    assert!(!is_ids_only(TokenIds::Read, empty));
    for (from, to) in [
        ("{},", r#"{"role":"assistant"},"#),
        ("{},", r#"{"content":""},"#),
        ("{},", "null,"),
        ("null", "\"stop\""),
        ("[1]", "null"),
        ("delta", "x"),
        ("}],", r#"},{"index":1,"delta":{"content":"x"}}],"#),
        ("\"usage\"", "\"error\""),
    ] {
        let other = empty.replacen(from, to, 1);
        assert_ne!(other, empty);
        assert!(!is_ids_only(WITHHOLD, &other), "{other}");
    }
}

#[test]
fn what_an_engine_gave_up_on_did_not_end_normally() {
    for (word, reason) in [
        ("stop", FinishReason::Stop),
        ("content_filter", FinishReason::Other),
        ("abort", FinishReason::Aborted),
        ("error", FinishReason::Aborted),
        ("cancelled", FinishReason::Aborted),
        ("timeout", FinishReason::Aborted),
    ] {
        let text = format!(r#"{{"choices":[{{"index":0,"text":"","finish_reason":"{word}"}}]}}"#);
        assert_eq!(observe(&text), [Observation::Finish { choice: 0, reason }], "{word}");
    }
}

/// Lists of ids, some of them odd, as they are written and as they are read.
fn any_list() -> impl Strategy<Value = (String, Option<Vec<TokenId>>)> {
    let odd = prop::sample::select(vec!["-0", "1.5", "4294967296", "\"7\"", "[ ]"]);
    let element = prop_oneof![
        9 => any::<TokenId>().prop_map(|id| (id.to_string(), Some(id))),
        1 => odd.prop_map(|text| (text.to_owned(), None)),
    ];
    let space = prop::sample::select(vec!["", " ", "\n\t"]);
    (prop::collection::vec(element, 0..9), space).prop_map(|(elements, space)| {
        let written: Vec<_> = elements.iter().map(|(text, _)| format!("{space}{text}{space}")).collect();
        (format!("[{}]", written.join(",")), elements.into_iter().map(|(_, id)| id).collect())
    })
}

proptest! {
    #[test]
    fn the_ids_of_every_choice_are_its_own(lists in prop::collection::vec(any_list(), 0..5)) {
        let choices: Vec<_> =
            lists.iter().enumerate().map(|(index, (list, _))| format!(r#"{{"token_ids":{list},"index":{index}}}"#)).collect();
        let (mut reader, mut observations) = (PartReader::new(TokenIds::Read), Vec::new());
        reader.read(&format!(r#"{{"choices":[{}]}}"#, choices.join(" ,")), &mut observations).unwrap();
        let read: Vec<_> = observations.iter().map(|observation| match observation {
            Observation::Generated { choice, ids } => (*choice, ids.map(|span| span.of(reader.token_ids()).to_vec())),
            other => panic!("{other:?}"),
        }).collect();
        let expected: Vec<_> = (0u32..).zip(lists.into_iter().map(|(_, ids)| ids)).collect();
        prop_assert_eq!(read, expected);
    }
}
