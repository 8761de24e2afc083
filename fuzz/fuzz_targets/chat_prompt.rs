//! A client's prompt on its way to token ids, through the demo model's template and tokenizer, as each engine's rules
//! have it: no ids is an error with a reason, never a panic.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use kvroute_fuzz::json_tree;
use kvroute_openai::{ClientRequest, Endpoint};
use kvroute_tokenize::{ChatRules, PromptTokenizer};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

static TOKENIZER: LazyLock<PromptTokenizer> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../assets/demo-tokenizer");
    PromptTokenizer::load(Path::new(folder)).expect("the demo tokenizer loads")
});

fuzz_target!(|body: &[u8]| {
    let body = Bytes::copy_from_slice(body);
    for endpoint in Endpoint::ALL {
        let Ok(request) = ClientRequest::parse(endpoint, body.clone()) else { continue };
        for rules in [ChatRules::Plain, ChatRules::Vllm, ChatRules::Sglang] {
            check(&request, rules);
        }
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let as_tree =
        if seed.is_multiple_of(4) { None } else { json_tree::mutate_in_place(data, size, max_size, seed) };
    as_tree.unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});

fn check(request: &ClientRequest, rules: ChatRules) {
    match TOKENIZER.encode(&request.prompt, rules) {
        Ok(lists) => {
            assert_eq!(lists.len(), request.prompt.count());
            // What is known from before is what was made then.
            assert_eq!(TOKENIZER.encode(&request.prompt, rules).as_ref(), Ok(&lists));
            lists.iter().for_each(|ids| drop(TOKENIZER.decode(ids)));
        }
        Err(error) => assert!(!error.message.is_empty()),
    }
}
