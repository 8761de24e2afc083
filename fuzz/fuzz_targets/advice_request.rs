//! A request that somebody asks advice about: its body is what the data plane would have got, byte for byte, and its headers
//! can be sent.

#![no_main]

use std::collections::BTreeMap;

use bytes::Bytes;
use kvroute_fuzz::json_tree;
use kvroute_openai::ClientRequest;
use kvroute_router::fuzz::read_hints;
use kvroute_server::fuzz::read_advice;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

fuzz_target!(|input: &[u8]| {
    let body = Bytes::copy_from_slice(input);
    let question = match read_advice(&body) {
        Ok(question) => question,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let told: BTreeMap<String, &RawValue> = serde_json::from_slice(input).expect("what was read is JSON");
    let endpoint = question.endpoint;
    assert!([endpoint.path(), endpoint.label()].contains(&read::<String>(told["endpoint"]).as_str()));
    assert_eq!(told["body"].get().as_bytes(), question.body);
    let given = told.get("headers").map(|headers| read::<BTreeMap<String, String>>(headers));
    for (name, value) in given.into_iter().flatten() {
        let mut sent = question.headers.get_all(name.as_str()).iter();
        assert!(sent.any(|sent| sent.as_bytes() == value.as_bytes()), "{name} is lost");
    }
    drop(read_hints(&question.headers, true));
    drop(ClientRequest::parse(question.endpoint, question.body));
});

fn read<T: DeserializeOwned>(told: &RawValue) -> T {
    serde_json::from_str(told.get()).expect("it was read before")
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let as_tree =
        if seed.is_multiple_of(4) { None } else { json_tree::mutate_in_place(data, size, max_size, seed) };
    as_tree.unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});
