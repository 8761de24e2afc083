use std::path::Path;

use proptest::prelude::*;

use super::*;

const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/demo-tokenizer/tokenizer.json");

/// The demo tokenizer, changed: ours and the library's.
fn both(change: impl FnOnce(&mut serde_json::Value)) -> (Encoder, tokenizers::Tokenizer) {
    let text = std::fs::read_to_string(Path::new(DEMO)).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    change(&mut json);
    let text = json.to_string();
    (Encoder::new(serde_json::from_str(&text).unwrap()), text.parse().unwrap())
}

fn expected(library: &tokenizers::Tokenizer, text: &str, add_special_tokens: bool) -> Vec<TokenId> {
    library.encode_fast(text, add_special_tokens).unwrap().get_ids().to_vec()
}

fn ids(encoder: &Encoder, text: &str) -> Vec<TokenId> {
    encoder.encode(text, false).unwrap()
}

#[test]
fn a_segment_that_was_encoded_before_is_not_encoded_again() {
    let (encoder, _) = both(|_| {});
    let first = ids(&encoder, "<|im_start|>one day<|im_end|>");
    let made = encoder.cache_counts();
    assert_eq!(made, CacheCounts { hit: 0, miss: first.len() as u64 - 2 });
    let second = ids(&encoder, "<|im_start|>one day<|im_end|><|im_start|>another<|im_end|>");
    assert_eq!(second[..first.len()], first);
    let both = encoder.cache_counts();
    assert_eq!((both.hit, both.miss), (made.miss, second.len() as u64 - 4));
}

#[test]
fn a_token_that_looks_beside_it_is_no_boundary() {
    for flag in ["lstrip", "rstrip", "single_word"] {
        let (encoder, library) = both(|json| json["added_tokens"][0][flag] = true.into());
        assert!(encoder.boundaries.is_none());
        for text in ["a <|im_start|> b", "a<|im_start|>b", " <|im_end|> <|im_start|> "] {
            assert_eq!(ids(&encoder, text), expected(&library, text, false), "{flag}");
        }
        assert_eq!(encoder.cache_counts().hit, 0);
    }
}

#[test]
fn a_step_that_asks_for_the_first_part_forbids_to_cut() {
    let first = serde_json::json!({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true});
    let (encoder, _) = both(|json| json["pre_tokenizer"] = first);
    assert!(encoder.boundaries.is_none() && encoder.words.is_none());
}

#[test]
fn other_normalisers_are_left_to_the_library() {
    let (encoder, library) = both(|json| json["normalizer"] = serde_json::json!({"type": "Lowercase"}));
    assert!(encoder.boundaries.is_some() && encoder.words.is_none());
    let text = "ONE Day<|im_end|>A";
    assert_eq!(ids(&encoder, text), expected(&library, text, false));
}

/// With a normaliser, a token that is looked for behind it may be found where the raw text has none.
#[test]
fn a_token_in_normalised_text_is_found_by_the_library() {
    let change = |json: &mut serde_json::Value| {
        json["normalizer"] = serde_json::json!({"type": "NFC"});
        json["added_tokens"][0]["normalized"] = true.into();
        json["added_tokens"][0]["content"] = "é!".into();
    };
    let (encoder, library) = both(change);
    for text in ["one e\u{301}! two", "é!", "<|im_end|>e\u{301}!"] {
        assert_eq!(ids(&encoder, text), expected(&library, text, false));
    }
}

#[test]
fn what_surrounds_a_text_is_put_around_it() {
    let framing = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "s", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "e", "type_id": 0}}],
        "pair": [],
        "special_tokens": {"s": {"id": "s", "ids": [7], "tokens": ["s"]}, "e": {"id": "e", "ids": [8, 9], "tokens": ["e", "e"]}}
    });
    let (encoder, library) = both(|json| json["post_processor"] = framing);
    for text in ["", "one day", "<|im_end|>"] {
        let expected = expected(&library, text, true);
        assert_eq!(encoder.encode(text, true).unwrap(), expected);
        assert_eq!((expected[0], expected[expected.len() - 1]), (7, 9));
    }
}

proptest! {
    /// Composition is left out only where it changes nothing.
    #[test]
    fn composed_text_is_what_the_library_composes(text in "[\\PC\u{300}-\u{36f}\u{1100}-\u{11ff}\u{3099}]{0,12}") {
        use tokenizers::{NormalizedString, Normalizer};
        let mut expected = NormalizedString::from(text.as_str());
        tokenizers::normalizers::NFC.normalize(&mut expected).unwrap();
        prop_assert_eq!(normalizer::Normalization::Nfc.apply(&text), expected.get());
    }
}

/// No character that composition is skipped for is changed by it, alone or between others of its kind.
#[test]
fn characters_that_are_left_alone_do_not_compose() {
    let all: Vec<char> =
        ('\0'..=char::MAX).filter(|character| normalizer::is_left_alone(*character)).collect();
    let repeated = all.iter().flat_map(|&character| [character, 'a', character, character]);
    let far_apart =
        all.iter().zip(all.iter().rev().step_by(7).cycle()).flat_map(|(&one, &other)| [one, other]);
    let text: String = repeated.chain(all.iter().copied()).chain(far_apart).collect();
    let composed: String = unicode_normalization_alignments::UnicodeNormalization::nfc(text.as_str())
        .map(|(character, _)| character)
        .collect();
    assert!(text == composed);
}
