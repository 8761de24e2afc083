//! A payload of an engine's event socket: whatever it holds, the index gets whole blocks.

#![no_main]

use kvroute_core::KvEvent;
use kvroute_engine::events::EventDecoder;
use kvroute_fuzz::check_stored;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let mut decoder = EventDecoder::default();
    let batch = decoder.decode(payload);
    for event in &batch.events {
        check(event, payload.len());
    }
    // What was learned of cache groups and block sizes may change which events matter, but not a second time.
    let again = decoder.decode(payload);
    assert_eq!((again.published, again.dp_rank), (batch.published, batch.dp_rank));
    assert_eq!(decoder.decode(payload), again);
    assert!(!again.events.windows(2).any(|pair| pair == [KvEvent::Cleared, KvEvent::Cleared]));
});

fn check(event: &KvEvent, bytes: usize) {
    match event {
        KvEvent::Stored(stored) => check_stored(stored, bytes),
        KvEvent::Removed { hashes, .. } => assert!(hashes.len() <= bytes),
        KvEvent::Moved { .. } => unreachable!("no engine moves blocks on this wire"),
        KvEvent::Cleared => {}
    }
}
