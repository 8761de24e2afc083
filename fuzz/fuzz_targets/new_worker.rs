//! A worker that somebody adds by the admin plane: whoever is let in has one address, written in one way, and adding it
//! again is adding the same.

#![no_main]

use kvroute_fuzz::json_tree;
use kvroute_router::config::parse_worker_url;
use kvroute_server::fuzz::read_new_worker;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use serde_json::Value;

/// All that a body may say.
const MEMBERS: [&str; 6] = ["url", "model", "role", "kv_events", "kv_replay", "dp_ranks"];

fuzz_target!(|body: &[u8]| {
    let (model, worker) = match read_new_worker(body) {
        Ok(read) => read,
        Err(told) => {
            assert!(!told.is_empty());
            return;
        }
    };
    let mut told: Value = serde_json::from_slice(body).expect("what was read is JSON");
    assert_eq!(told.get("model").and_then(Value::as_str), model.as_deref());
    assert_eq!(parse_worker_url(&worker.url).as_ref(), Ok(&worker.url), "its address has a second form");
    assert!(worker.dp_ranks != Some(0), "a worker without ranks");
    if let Some(members) = told.as_object() {
        assert!(
            members.keys().all(|name| MEMBERS.contains(&name.as_str())),
            "an unknown member passes: {told}"
        );
        told["url"] = worker.url.as_str().into();
        assert_eq!(read_new_worker(told.to_string().as_bytes()), Ok((model, worker)), "{told}");
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let as_tree =
        if seed.is_multiple_of(4) { None } else { json_tree::mutate_in_place(data, size, max_size, seed) };
    as_tree.unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});
