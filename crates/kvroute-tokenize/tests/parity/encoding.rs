//! Ids of any text, in any order of texts, against the `tokenizers` library, which engines use.

use kvroute_core::TokenId;
use kvroute_openai::Prompt;
use kvroute_tokenize::{ChatRules, PromptTokenizer};
use serde_json::{Value, json};
use tokenizers::Tokenizer;

use crate::chats::chat;
use crate::random::Dice;
use crate::texts::text;
use crate::{peers, reference};

/// Texts a model, each of them encoded twice.
const TEXTS: usize = 600;

fn ids(tokenizer: &PromptTokenizer, text: &str, add_special_tokens: bool) -> Vec<TokenId> {
    let prompt = Prompt::Texts { texts: vec![text.to_owned()], add_special_tokens };
    tokenizer.encode(&prompt, ChatRules::Vllm).unwrap().remove(0)
}

/// Short and long texts of all kinds, and chats as they are written in requests.
fn any_text(dice: &mut Dice) -> String {
    match dice.below(10) {
        0 => (0..dice.below(40)).map(|_| dice.character()).collect(),
        1 => chat(dice).to_string(),
        2 => text(dice, 120),
        _ => text(dice, 16),
    }
}

fn compare_with_the_library(model: &str) {
    let Some(folder) = peers::folder(model) else { return };
    let ours = peers::load_from(&folder);
    assert!(ours.is_fast(), "{model}: its texts are left to the library");
    let library = Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    let mut dice = Dice::new(11);
    let mut earlier: Vec<String> = Vec::new();
    for _ in 0..TEXTS {
        let mut text = any_text(&mut dice);
        if let Some(known) = earlier.get(dice.below(earlier.len() + 1)).filter(|_| dice.chance(30)) {
            text = known.clone() + &text;
        }
        let add_special_tokens = dice.chance(30);
        let expected = library.encode_fast(text.as_str(), add_special_tokens).unwrap();
        for _ in 0..2 {
            assert_eq!(ids(&ours, &text, add_special_tokens), expected.get_ids(), "{model}: {text:?}");
        }
        if text.len() < 4096 {
            earlier.push(text);
        }
    }
    let counts = ours.cache_counts();
    eprintln!("{model}: {TEXTS} texts twice, {counts:?}");
    assert!(counts.hit > counts.miss, "{counts:?}");
}

#[test]
fn texts_of_qwen3_are_encoded_as_by_the_library() {
    compare_with_the_library("qwen3");
}

#[test]
fn texts_of_deepseek_v3_are_encoded_as_by_the_library() {
    compare_with_the_library("deepseek_v3");
}

#[test]
fn texts_of_llama3_are_encoded_as_by_the_library() {
    compare_with_the_library("llama3");
}

#[test]
fn texts_of_llama3_1_are_encoded_as_by_the_library() {
    compare_with_the_library("llama3_1");
}

#[test]
fn texts_of_gptoss_are_encoded_as_by_the_library() {
    compare_with_the_library("gptoss");
}

/// gpt-oss has no template here: its ids are compared with those of the library as Python has it.
#[test]
fn texts_of_gptoss_are_encoded_as_by_the_reference() {
    let Some(folder) = peers::folder("gptoss") else { return };
    let mut dice = Dice::new(3);
    let mut work = vec![json!({"folder": folder})];
    work.extend(
        (0..300).map(|_| json!({"text": any_text(&mut dice), "add_special_tokens": dice.chance(50)})),
    );
    let Some(answers) = reference::answers(&work) else { return };
    let tokenizer = peers::load_from(&folder);
    assert!(!tokenizer.has_chat_template());
    assert_eq!(answers.len(), 300);
    for (given, expected) in work[1..].iter().zip(&answers) {
        let text = given["text"].as_str().unwrap();
        let ours: Vec<Value> =
            ids(&tokenizer, text, given["add_special_tokens"] == true).into_iter().map(Value::from).collect();
        assert_eq!(Some(&ours), expected["ids"].as_array(), "{text:?}");
    }
}

/// A template that writes the token at the start itself must not give two, though the tokenizer adds one to plain texts.
#[test]
fn a_llama_chat_starts_with_one_token_and_so_does_a_text() {
    let Some(tokenizer) = peers::load("llama3_1") else { return };
    let start: TokenId = 128_000;
    assert_eq!(ids(&tokenizer, "one day", true)[..2].iter().filter(|id| **id == start).count(), 1);
    let request = kvroute_openai::ClientRequest::parse(
        kvroute_openai::Endpoint::ChatCompletions,
        bytes::Bytes::from_static(br#"{"messages":[{"role":"user","content":"one day"}]}"#),
    );
    for rules in [ChatRules::Plain, ChatRules::Vllm, ChatRules::Sglang] {
        let chat = tokenizer.encode(&request.as_ref().unwrap().prompt, rules).unwrap().remove(0);
        assert_eq!(chat.iter().filter(|id| **id == start).count(), 1, "{rules:?}");
        assert_eq!(chat[0], start);
    }
    let Some(qwen) = peers::load("qwen3") else { return };
    assert_eq!(ids(&qwen, "one day", true), ids(&qwen, "one day", false));
}
