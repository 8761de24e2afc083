use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo-tokenizer/tokenizer.json");

/// The demo tokenizer's model: ours and the library's.
static DEMO_MODEL: LazyLock<(Model, ModelWrapper)> = LazyLock::new(|| {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(DEMO).unwrap()).unwrap();
    (ours(&file["model"]), library(&file["model"]))
});

/// A model as it is written in a file.
fn written(tokens: &[String], merges: &Value, ignore_merges: bool) -> Value {
    let vocab: serde_json::Map<String, Value> =
        tokens.iter().cloned().zip(0..).map(|(token, id): (_, u32)| (token, id.into())).collect();
    json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "", "end_of_word_suffix": null,
        "fuse_unk": false, "byte_fallback": false, "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges
    })
}

fn ours(model: &Value) -> Model {
    serde_json::from_str(&model.to_string()).unwrap()
}

fn library(model: &Value) -> ModelWrapper {
    serde_json::from_str(&model.to_string()).unwrap()
}

fn assert_equal(ours: &Model, library: &ModelWrapper, word: &str) {
    let expected = library.tokenize(word).unwrap();
    assert_eq!(ours.tokenize(word).unwrap(), expected, "{word:?}");
    let mut ids = vec![7];
    ours.append_ids(word, &mut ids).unwrap();
    let expected: Vec<TokenId> =
        std::iter::once(7).chain(expected.into_iter().map(|token| token.id)).collect();
    assert_eq!(ids, expected, "{word:?}");
}

/// Tokens that grow out of a few characters, and the merges that make them, some of them twice.
fn grown(steps: &[(prop::sample::Index, prop::sample::Index)]) -> (Vec<String>, Vec<(String, String)>) {
    let mut tokens: Vec<String> = ["a", "b", "c", "é", "猫"].map(str::to_owned).into();
    let mut merges = Vec::new();
    for (left, right) in steps {
        let (left, right) = (left.get(&tokens).clone(), right.get(&tokens).clone());
        let joined = format!("{left}{right}");
        if !tokens.contains(&joined) {
            tokens.push(joined);
        }
        merges.push((left, right));
    }
    (tokens, merges)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any model of any merges, on words with characters that it does not know.
    #[test]
    fn words_become_what_the_library_makes_of_them(
        steps in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..24),
        words in prop::collection::vec("[abcé猫x]{0,24}", 1..24),
        ignore_merges: bool,
        in_lines: bool,
    ) {
        let (tokens, merges) = grown(&steps);
        let merges = if in_lines {
            merges.iter().map(|(left, right)| Value::from(format!("{left} {right}"))).collect()
        } else {
            json!(merges)
        };
        let model = written(&tokens, &merges, ignore_merges);
        let (ours, library) = (ours(&model), library(&model));
        prop_assert!(matches!(ours, Model::Pairs(_)));
        for word in words.iter().chain(&tokens) {
            assert_equal(&ours, &library, word);
        }
        prop_assert_eq!(ours.get_vocab(), library.get_vocab());
        prop_assert_eq!(ours.get_vocab_size(), library.get_vocab_size());
        prop_assert_eq!(ours.largest_id(), library.get_vocab().into_values().max());
        for (token, id) in library.get_vocab() {
            prop_assert_eq!(ours.token_to_id(&token), Some(id));
            prop_assert_eq!(ours.id_to_token(id), Some(token));
        }
        prop_assert_eq!(ours.id_to_token(tokens.len() as u32), None);
        prop_assert_eq!(ours.token_to_id("xx"), None);
    }

    /// Words that merges are made for, and words of anything.
    #[test]
    fn words_of_the_demo_tokenizer_too(
        words in prop::collection::vec(prop_oneof!["Ġ?[a-z]{0,24}", "[!-~¡-¬®-ńĠĊ]{0,40}"], 1..24),
    ) {
        let (ours, library) = &*DEMO_MODEL;
        prop_assert!(matches!(ours, Model::Pairs(_)));
        for word in &words {
            assert_equal(ours, library, word);
        }
    }
}

#[test]
fn ids_may_have_holes() {
    let mut model = written(&["a".to_owned(), "b".to_owned()], &json!([["a", "b"]]), false);
    model["vocab"] = json!({"ab": 7, "a": 2, "b": 4});
    let (ours, library) = (ours(&model), library(&model));
    assert!(matches!(ours, Model::Pairs(_)));
    assert_equal(&ours, &library, "abab");
    assert_eq!((ours.id_to_token(3), ours.id_to_token(0), ours.largest_id()), (None, None, Some(7)));
    assert_eq!(ours.get_vocab_size(), 3);
}

#[test]
fn the_first_lines_of_an_old_file_are_no_merges() {
    let tokens = ["a", "b", "ab"].map(str::to_owned);
    let model = written(&tokens, &json!(["#version: 0.2", "a b"]), false);
    assert_equal(&ours(&model), &library(&model), "aab");
}

#[test]
fn options_and_oddities_are_left_to_the_library() {
    let tokens = ["a", "b", "ab"].map(str::to_owned);
    let plain = written(&tokens, &json!([["a", "b"]]), false);
    let is_ours = |change: &dyn Fn(&mut Value)| {
        let mut model = plain.clone();
        change(&mut model);
        matches!(ours(&model), Model::Pairs(_))
    };
    assert!(is_ours(&|_| {}));
    assert!(is_ours(&|model| model["dropout"] = 0.0.into()));
    for (option, value) in [
        ("dropout", json!(0.5)),
        ("unk_token", json!("a")),
        ("continuing_subword_prefix", json!("#")),
        ("end_of_word_suffix", json!("</w>")),
        ("byte_fallback", json!(true)),
        ("vocab", json!({"a": 0, "b": 1, "ab": 2, "": 3})),
        ("vocab", json!({"a": 0, "b": 1, "ab": 1})),
        ("vocab", json!({"a": 0, "b": 1, "ab": 4_000_000_000_u32})),
    ] {
        let change = |model: &mut Value| {
            if option == "continuing_subword_prefix" {
                model["merges"] = json!([]);
            }
            model[option] = value.clone();
        };
        assert!(!is_ours(&change), "{option}: {value}");
    }
    let word_piece = json!({
        "type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
        "vocab": {"a": 0}
    });
    assert!(matches!(ours(&word_piece), Model::Library(_)));
}

#[test]
fn what_is_wrong_with_a_model_says_the_library() {
    let tokens = ["a", "b", "ab"].map(str::to_owned);
    for merges in
        [json!([["a", "c"]]), json!(["a b c"]), json!([["a", "b", "c"]]), json!(["a b", ["a", "b"]])]
    {
        let text = written(&tokens, &merges, false).to_string();
        let expected = serde_json::from_str::<ModelWrapper>(&text).unwrap_err().to_string();
        assert_eq!(serde_json::from_str::<Model>(&text).unwrap_err().to_string(), expected);
    }
}
