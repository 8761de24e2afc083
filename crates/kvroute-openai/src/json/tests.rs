use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Builds a tree from what the reader says, so that the tree of another parser can be compared with it.
fn tree(reader: &mut JsonReader<'_>) -> Result<Value, JsonError> {
    Ok(match reader.kind()? {
        JsonKind::Null => {
            reader.null()?;
            Value::Null
        }
        JsonKind::Bool => Value::Bool(reader.bool()?),
        JsonKind::Number => serde_json::from_str(reader.number()?).unwrap_or_default(),
        JsonKind::String => Value::String(reader.string()?.into_owned()),
        JsonKind::Array => {
            let mut items = Vec::new();
            reader.array(|inner| {
                items.push(tree(inner)?);
                Ok::<_, JsonError>(())
            })?;
            Value::Array(items)
        }
        JsonKind::Object => {
            let mut members = serde_json::Map::new();
            reader.object(|inner, key| {
                members.insert(key.to_owned(), tree(inner)?);
                Ok::<_, JsonError>(())
            })?;
            Value::Object(members)
        }
    })
}

fn whole_tree(text: &str) -> Result<Value, JsonError> {
    let mut reader = JsonReader::new(text);
    let value = tree(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

fn skips(text: &str) -> bool {
    let mut reader = JsonReader::new(text);
    reader.skip().is_ok_and(|raw| raw == text.trim_matches([' ', '\t', '\n', '\r']))
        && reader.finish().is_ok()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Text that is often JSON and often nearly so.
fn nearly_json() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\\",
        "\\n",
        "\\u12",
        "0",
        "-0",
        "01",
        "1.5",
        "1.",
        ".5",
        "1e9",
        "1E+2",
        "-",
        "null",
        "true",
        "false",
        "nul",
        " ",
        "\n",
        "é",
        "\u{1}",
        "\"x\":1",
    ]);
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_value_is_read_as_serde_json_reads_it(value in any_json(), pretty in any::<bool>()) {
        let text =
            if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(whole_tree(&text).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        prop_assert!(skips(&text));
    }

    #[test]
    fn the_same_texts_are_refused(text in nearly_json()) {
        let theirs = serde_json::from_str::<Value>(&text);
        // A range is no part of the grammar.
        prop_assume!(!theirs.as_ref().is_err_and(|error| error.to_string().contains("out of range")));
        prop_assert_eq!(whole_tree(&text).ok(), theirs.as_ref().ok().cloned(), "{:?}", text);
        // Skipping checks the grammar too; only surrogates need decoding to be judged.
        prop_assert!(skips(&text) || theirs.is_err(), "{:?}", text);
    }

    #[test]
    fn a_list_of_plain_numbers_is_what_reading_it_element_by_element_gives(
        pieces in prop::collection::vec(
            prop::sample::select(vec!["[", "]", ",", ", ", " ", "0", "7", "10", "4294967295", "4294967296", "-1", "1.5", "\"1\"", "\n"]),
            0..9,
        ),
        is_open in any::<bool>(),
    ) {
        let text = format!("{}{}", if is_open { " [" } else { "" }, pieces.concat());
        let (mut reader, mut skipping, mut numbers) = (JsonReader::new(&text), JsonReader::new(&text), Vec::new());
        if reader.plain_numbers(|number| numbers.push(number)) {
            let read: Vec<u32> = serde_json::from_str(skipping.skip().unwrap()).unwrap();
            prop_assert_eq!((numbers, reader.position()), (read, skipping.position()));
        } else {
            prop_assert_eq!(reader.skip().ok(), skipping.skip().ok());
        }
    }

    #[test]
    fn what_programs_write_is_a_list_of_plain_numbers(
        numbers in prop::collection::vec(any::<u32>(), 0..9),
        separator in prop::sample::select(vec![",", ", "]),
    ) {
        let written: Vec<_> = numbers.iter().map(u32::to_string).collect();
        let (text, mut read) = (format!("[{}]x", written.join(separator)), Vec::new());
        let mut reader = JsonReader::new(&text);
        prop_assert!(reader.plain_numbers(|number| read.push(number)));
        prop_assert_eq!((read, reader.position()), (numbers, text.len() - 1));
    }

    #[test]
    fn cutting_a_text_short_never_panics(value in any_json(), cut in any::<prop::sample::Index>()) {
        let text = serde_json::to_string(&value).unwrap();
        let mut end = cut.index(text.len() + 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let short = whole_tree(&text[..end]);
        prop_assert_eq!(short.is_ok(), serde_json::from_str::<Value>(&text[..end]).is_ok());
    }
}

#[test]
fn surrogates_are_joined_and_lone_ones_refused() {
    assert_eq!(whole_tree(r#""\ud83d\ude00""#).unwrap(), "😀");
    for lone in [r#""\ud83d""#, r#""\ude00\ud83d""#, r#""\ud83dx""#, r#""\ud83d\u0041""#] {
        assert!(whole_tree(lone).is_err(), "{lone}");
        assert!(skips(lone), "{lone} is grammatical");
    }
}

#[test]
fn errors_name_the_place() {
    let at = |text| whole_tree(text).unwrap_err().to_string();
    assert_eq!(at("{\"a\": 1,\n  \"b\" 2}"), "expected `:` at line 2 column 7");
    assert_eq!(at("[1, 2"), "expected `,` or `]` at line 1 column 6");
    assert_eq!(at("{\"a\": \"x"), "unexpected end inside a string at line 1 column 9");
    assert_eq!(at("\"a\u{7}\""), "raw control character in a string at line 1 column 3");
    assert_eq!(at("[1] 2"), "unexpected text after the value at line 1 column 5");
    assert_eq!(at(""), "unexpected end, expected a value at line 1 column 1");
}

#[test]
fn plain_numbers_have_no_leading_zeros() {
    for (text, is_plain) in
        [("[0]", true), ("[00]", false), ("[07]", false), ("[10,01]", false), ("[]", true)]
    {
        assert_eq!(JsonReader::new(text).plain_numbers(|_| ()), is_plain, "{text}");
    }
}

#[test]
fn nesting_is_bounded() {
    let mut inside = JsonReader { text: "[1]", at: 0, depth: JsonReader::MAX_DEPTH };
    assert!(!inside.plain_numbers(|_| ()), "as deep as any other list may be");
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(skips(&nested(128)));
    assert!(!skips(&nested(129)));
    assert!(whole_tree(&"[".repeat(1_000_000)).is_err());
}

#[test]
fn numbers_keep_their_form() {
    for form in ["1.50", "1e3", "-0", "12345678901234567890123", "0.10E-7"] {
        assert_eq!(JsonReader::new(form).number().unwrap(), form);
    }
}
