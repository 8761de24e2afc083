//! An engine's whole answer: it passes byte by byte but for the private report, which never does, and the token ids that
//! only the router asked for.

#![no_main]

use bytes::Bytes;
use kvroute_openai::{BodyScan, Observation, TokenIds, Unasked};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|body: &[u8]| {
    for mode in [
        TokenIds::Ignore,
        TokenIds::Read,
        TokenIds::Withhold(Unasked::Null),
        TokenIds::Withhold(Unasked::Absent),
    ] {
        check(body, mode);
    }
});

fn check(body: &[u8], mode: TokenIds) {
    let scan = BodyScan::read_with(Bytes::copy_from_slice(body), mode);
    let again = BodyScan::read_with(scan.forward.clone(), mode);
    assert_eq!(again.forward, scan.forward, "something private is left");
    check_ids(&scan, mode);
    let Ok(mut expected) = serde_json::from_slice::<Map<String, Value>>(body) else { return };
    let is_private = expected.remove("engine_data").is_some();
    match mode {
        TokenIds::Withhold(unasked) => withhold_ids(&mut expected, unasked),
        TokenIds::Ignore | TokenIds::Read if is_private => {}
        TokenIds::Ignore | TokenIds::Read => assert_eq!(scan.forward, body),
    }
    let forwarded = serde_json::from_slice::<Map<String, Value>>(&scan.forward);
    assert_eq!(forwarded.expect("an edited body is JSON"), expected);
}

/// What is told of ids can be looked up.
fn check_ids(scan: &BodyScan, mode: TokenIds) {
    for observation in &scan.observations {
        if let Observation::Generated { ids, .. } = observation {
            assert_ne!(mode, TokenIds::Ignore);
            assert!(ids.is_none_or(|span| span.of(&scan.token_ids).len() == span.count()));
        }
    }
}

/// The tree without lists of ids.
fn withhold_ids(answer: &mut Map<String, Value>, unasked: Unasked) {
    withhold(answer, "prompt_token_ids", unasked);
    for choice in answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(choice) = choice.as_object_mut() {
            withhold(choice, "token_ids", unasked);
            withhold(choice, "prompt_token_ids", unasked);
        }
    }
}

fn withhold(members: &mut Map<String, Value>, key: &str, unasked: Unasked) {
    if !members.get(key).is_some_and(Value::is_array) {
        return;
    }
    match unasked {
        Unasked::Null => members.insert(key.to_owned(), Value::Null),
        Unasked::Absent => members.shift_remove(key),
    };
}
