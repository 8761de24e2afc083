//! A trace file: it is refused by line, or its requests can be replayed.

#![no_main]

use kvroute_replay::{PromptSynthesizer, TokenRange, read_mooncake};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let trace = match read_mooncake(text, None) {
        Ok(trace) => trace,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!trace.requests.is_empty());
    assert!(trace.requests.is_sorted_by_key(|request| request.at));
    let allowed = TokenRange::new(10..1_000).expect("a range");
    let synthesizer = PromptSynthesizer::new(trace.block_size, allowed, 1);
    for (position, request) in trace.requests.iter().enumerate() {
        assert!(request.output.get() > 0);
        let prompt = synthesizer.prompt(position, request);
        assert_eq!(prompt.len() as u64, request.input.get());
        assert_eq!(trace.block_size.occupied_blocks(request.input).get(), request.blocks.len() as u64);
    }
});
