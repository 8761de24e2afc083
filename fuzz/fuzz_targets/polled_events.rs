//! An answer of an engine whose events are polled: whatever it holds, the index gets whole blocks.

#![no_main]

use std::time::Duration;

use kvroute_core::{DpRank, KvEvent};
use kvroute_engine::events::{PolledSource, SourceAction};
use kvroute_fuzz::{check_stored, json_tree};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|answer: &[u8]| {
    let mut source = PolledSource::new(DpRank::new(0), Duration::ZERO);
    // The second time every number is one that was there before: another process.
    for _ in 0..2 {
        let mut actions = Vec::new();
        let has_events = source.answered(answer, &mut actions);
        assert!(has_events == Some(true) || actions.is_empty(), "{actions:?}");
        actions.iter().for_each(|action| check(action, answer.len()));
        source.status(Duration::ZERO);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(4) {
        return fuzzer_mutate(data, size, max_size);
    }
    json_tree::mutate_in_place(data, size, max_size, seed)
        .unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});

fn check(action: &SourceAction, bytes: usize) {
    let SourceAction::Apply { batch, position } = action else { return };
    assert_eq!(*position, None);
    for event in &batch.events {
        match event {
            KvEvent::Stored(stored) => check_stored(stored, bytes),
            KvEvent::Removed { hashes, .. } => assert!(hashes.len() <= bytes),
            KvEvent::Moved { from, to, .. } => assert_ne!(from, to),
            KvEvent::Cleared => {}
        }
    }
}
