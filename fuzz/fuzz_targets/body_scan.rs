//! An engine's whole answer: it passes byte by byte but for the private report, which never does.

#![no_main]

use bytes::Bytes;
use kvroute_openai::BodyScan;
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|body: &[u8]| {
    let scan = BodyScan::read(Bytes::copy_from_slice(body));
    let again = BodyScan::read(scan.forward.clone());
    assert_eq!(again.forward, scan.forward, "something private is left");
    let Ok(mut expected) = serde_json::from_slice::<Map<String, Value>>(body) else { return };
    if expected.remove("engine_data").is_none() {
        assert_eq!(scan.forward, body);
    }
    let forwarded = serde_json::from_slice::<Map<String, Value>>(&scan.forward);
    assert_eq!(forwarded.expect("an edited body is JSON"), expected);
});
