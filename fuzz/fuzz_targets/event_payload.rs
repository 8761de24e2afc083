//! A payload of an engine's event socket: whatever it holds, the index gets whole blocks.

#![no_main]

use std::time::Duration;

use kvroute_core::{DpRank, EventBatch, KvEvent};
use kvroute_engine::events::EventDecoder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let mut decoder = EventDecoder::default();
    let batch = decoder.decode(payload);
    for event in &batch.events {
        check(event, payload.len());
    }
    // What was learned of cache groups may change which events matter, never what the payload consists of.
    let again = decoder.decode(payload);
    assert_eq!(parts(&again), parts(&batch));
});

/// How many events there are, and what is said of them all.
fn parts(batch: &EventBatch) -> (u64, Option<Duration>, Option<DpRank>) {
    (batch.events.len() as u64 + batch.ignored + batch.undecodable, batch.published, batch.dp_rank)
}

fn check(event: &KvEvent, bytes: usize) {
    match event {
        KvEvent::Stored(stored) => {
            assert!(!stored.hashes.is_empty());
            assert_eq!(stored.tokens.len(), stored.hashes.len() * stored.block_size.get() as usize);
            assert!(stored.tokens.len() <= bytes, "made up {} tokens", stored.tokens.len());
            assert_ne!(stored.salt.as_deref(), Some(""));
            assert_ne!(stored.adapter.as_deref(), Some(""));
        }
        KvEvent::Removed { hashes, .. } => assert!(hashes.len() <= bytes),
        KvEvent::Cleared => {}
    }
}
