//! Ids against those that a real vLLM used, with the real Qwen3 tokenizer.
//!
//! The tokenizer is too large for the repository: `KVROUTE_QWEN3_TOKENIZER` names a folder that holds its
//! `tokenizer.json` and `tokenizer_config.json`. Without it these tests say so and pass, unless
//! `KVROUTE_REQUIRE_PEERS=1` is set.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a broken capture must fail the test"
)]

use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use kvroute_core::TokenId;
use kvroute_openai::{ClientRequest, Endpoint};
use kvroute_tokenize::{ChatRules, PromptTokenizer};
use serde_json::Value;

static QWEN3: LazyLock<Option<PromptTokenizer>> = LazyLock::new(|| {
    let Some(folder) = std::env::var_os("KVROUTE_QWEN3_TOKENIZER") else {
        let is_required = std::env::var("KVROUTE_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!is_required, "KVROUTE_QWEN3_TOKENIZER is not set; name the folder of the Qwen3 tokenizer");
        eprintln!("skipped: KVROUTE_QWEN3_TOKENIZER is not set");
        return None;
    };
    Some(PromptTokenizer::load(Path::new(&folder)).unwrap())
});

fn lines(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(file);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(tokenizer: &PromptTokenizer, endpoint: Endpoint, body: &Value, rules: ChatRules) -> Vec<TokenId> {
    let request = ClientRequest::parse(endpoint, Bytes::from(body.to_string())).unwrap();
    tokenizer.encode(&request.prompt, rules).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

fn engine_ids(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as TokenId).collect()
}

#[test]
fn every_prompt_of_the_vllm_session_has_the_engines_ids() {
    let Some(tokenizer) = QWEN3.as_ref() else { return };
    let mut compared = [0, 0];
    for line in lines("vllm/session.jsonl.gz") {
        let path = line["path"].as_str().unwrap_or_default();
        let Some(endpoint) = Endpoint::ALL.into_iter().find(|endpoint| endpoint.path() == path) else {
            continue;
        };
        let ours = ids(tokenizer, endpoint, &line["body"], ChatRules::Vllm);
        assert_eq!(ours, engine_ids(&line["prompt_token_ids"]), "request {}", line["i"]);
        compared[usize::from(endpoint == Endpoint::Completions)] += 1;
    }
    assert_eq!(compared, [48, 21], "chats and completions");
}

#[test]
fn every_kind_of_chat_has_the_ids_that_vllm_made_of_it() {
    let Some(tokenizer) = QWEN3.as_ref() else { return };
    let cases = lines("vllm/token_check.jsonl.gz");
    assert_eq!(cases.len(), 18);
    for case in cases {
        let name = &case["case"];
        let expected = engine_ids(&case["engine_prompt_token_ids"]);
        let ours = ids(tokenizer, Endpoint::ChatCompletions, &case["request"], ChatRules::Vllm);
        assert_eq!(tokenizer.decode(&ours), tokenizer.decode(&expected), "{name}");
        assert_eq!(ours, expected, "{name}");
    }
}

/// Plain rendering is right where the capture says so, and only there: the normalisations are needed.
#[test]
fn plain_rendering_differs_where_the_capture_says_so() {
    let Some(tokenizer) = QWEN3.as_ref() else { return };
    for case in lines("vllm/token_check.jsonl.gz") {
        let request =
            ClientRequest::parse(Endpoint::ChatCompletions, Bytes::from(case["request"].to_string()))
                .unwrap();
        let plain = tokenizer.encode(&request.prompt, ChatRules::Plain);
        let is_equal = plain.is_ok_and(|lists| lists[0] == engine_ids(&case["engine_prompt_token_ids"]));
        assert_eq!(is_equal, case["plain_equal"].as_bool().unwrap(), "{}", case["case"]);
    }
}

#[test]
fn the_vocabulary_covers_the_added_tokens() {
    let Some(tokenizer) = QWEN3.as_ref() else { return };
    assert_eq!(tokenizer.vocabulary_size(), 151_669);
    assert_eq!(tokenizer.decode(&[151_644, 872, 198]), "<|im_start|>user\n");
}
