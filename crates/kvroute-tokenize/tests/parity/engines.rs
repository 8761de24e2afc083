//! Ids against those that real engines used, with the real Qwen3 tokenizer.

use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};
use kvroute_tokenize::{ChatRules, EncodeError, PromptTokenizer};
use serde_json::Value;

use crate::peers;

fn lines(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(file);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn encode(
    tokenizer: &PromptTokenizer,
    endpoint: Endpoint,
    body: &Value,
    rules: ChatRules,
) -> Result<Vec<TokenId>, EncodeError> {
    let request = ClientRequest::parse(endpoint, Bytes::from(body.to_string())).unwrap();
    tokenizer.encode(&request.prompt, rules).map(|mut lists| lists.remove(0))
}

fn engine_ids(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as TokenId).collect()
}

/// Compares every request of a session with the ids of the engine's own tokenize endpoint: chats and completions.
fn compare_session(file: &str, rules: ChatRules) -> [usize; 2] {
    let Some(tokenizer) = peers::load("qwen3") else { return [0, 0] };
    let mut compared = [0, 0];
    for line in lines(file) {
        let path = line["path"].as_str().unwrap_or_default();
        let Some(endpoint) = Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == path) else {
            continue;
        };
        let ours = encode(&tokenizer, endpoint, &line["body"], rules).unwrap();
        assert_eq!(ours, engine_ids(&line["prompt_token_ids"]), "request {}", line["i"]);
        compared[usize::from(endpoint == Endpoint::Completions)] += 1;
    }
    compared
}

/// Compares 18 kinds of chat. SGLang's ids were taken from its events, so they end with the last whole page.
fn compare_kinds(file: &str, rules: ChatRules) {
    let Some(tokenizer) = peers::load("qwen3") else { return };
    let cases = lines(file);
    assert_eq!(cases.len(), 18);
    for case in cases {
        let name = &case["case"];
        let expected = engine_ids(&case["engine_prompt_token_ids"]);
        let ours = encode(&tokenizer, Endpoint::ChatCompletions, &case["request"], rules)
            .unwrap_or_else(|error| panic!("{name} is not rendered: {error}"));
        eprintln!("{name}: reached by rendering, {} tokens, {} compared", ours.len(), expected.len());
        assert_eq!(ours.len() as u64, case["prompt_tokens"].as_u64().unwrap(), "{name}");
        let start = &ours[..expected.len()];
        assert_eq!(tokenizer.decode(start), tokenizer.decode(&expected), "{name}");
        assert_eq!(start, expected, "{name}");
    }
}

#[test]
fn every_prompt_of_the_vllm_session_has_the_engines_ids() {
    let compared = compare_session("vllm/session.jsonl.gz", ChatRules::Vllm);
    assert!(matches!(compared, [48, 21] | [0, 0]), "chats and completions: {compared:?}");
}

#[test]
fn every_prompt_of_the_sglang_session_has_the_engines_ids() {
    let compared = compare_session("sglang/session.jsonl.gz", ChatRules::Sglang);
    assert!(matches!(compared, [41, 27] | [0, 0]), "chats and completions: {compared:?}");
}

#[test]
fn every_kind_of_chat_has_the_ids_that_vllm_made_of_it() {
    compare_kinds("vllm/token_check.jsonl.gz", ChatRules::Vllm);
}

#[test]
fn every_kind_of_chat_has_the_ids_that_sglang_made_of_it() {
    compare_kinds("sglang/token_check.jsonl.gz", ChatRules::Sglang);
}

/// Plain rendering is right where the capture says so, and only there: the normalisations are needed.
#[test]
fn plain_rendering_differs_where_the_capture_says_so() {
    let Some(tokenizer) = peers::load("qwen3") else { return };
    for case in lines("vllm/token_check.jsonl.gz") {
        let plain = encode(&tokenizer, Endpoint::ChatCompletions, &case["request"], ChatRules::Plain);
        let is_equal = plain.is_ok_and(|ids| ids == engine_ids(&case["engine_prompt_token_ids"]));
        assert_eq!(is_equal, case["plain_equal"].as_bool().unwrap(), "{}", case["case"]);
    }
}

#[test]
fn the_vocabulary_covers_the_added_tokens() {
    let Some(tokenizer) = peers::load("qwen3") else { return };
    assert_eq!(tokenizer.vocabulary_size(), 151_669);
    assert_eq!(tokenizer.decode(&[151_644, 872, 198]), "<|im_start|>user\n");
}
