//! What an engine tells of its load: metrics in the text format, or JSON.
//!
//! The first byte chooses the engine, the second which of its questions is answered.

#![no_main]

use kvroute_engine::EngineKind;
use kvroute_engine::fuzz::told_load;
use libfuzzer_sys::fuzz_target;

/// Ranks that are believed, each with a place in every table.
const PLAUSIBLE_RANKS: usize = 1024;

/// Requests of a rank, so that no sum of them overflows.
const PLAUSIBLE_REQUESTS: u64 = u32::MAX as u64;

fuzz_target!(|input: &[u8]| {
    let [engine, question, answer @ ..] = input else { return };
    let engine = EngineKind::ALL[usize::from(*engine) % EngineKind::ALL.len()];
    let Some(loads) = told_load(engine, usize::from(*question), answer) else { return };
    let ranks: Vec<_> = loads.iter().collect();
    assert!((1..=PLAUSIBLE_RANKS).contains(&ranks.len()), "{} ranks", ranks.len());
    for (rank, load) in &ranks {
        assert!((rank.get() as usize) < PLAUSIBLE_RANKS);
        assert!(load.running.max(load.waiting) <= PLAUSIBLE_REQUESTS, "{load:?}");
        assert!(load.kv_usage.is_none_or(|usage| (0.0..=1.0).contains(&usage)), "{load:?}");
        assert_eq!(loads.of(*rank, ranks.len() as u32), Some(*load));
    }

    // An answer that is cut off tells nothing that the whole one does not: at most a number is shorter.
    if let Some(line) = answer.iter().rposition(|byte| *byte == b'\n') {
        let cut = told_load(engine, usize::from(*question), &answer[..line]);
        assert!(cut.is_none_or(|cut| cut.iter().count() <= ranks.len()));
    }
});
