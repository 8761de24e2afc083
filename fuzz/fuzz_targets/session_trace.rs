//! A trace of whole sessions: it is refused by line and request, or its requests can be replayed.

#![no_main]

use kvroute_replay::{PromptSynthesizer, Session, SessionOptions, SessionTrace, TokenRange, read_sessions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    for shared_preamble in [false, true] {
        let options = SessionOptions { shared_preamble, ..SessionOptions::default() };
        match read_sessions(text, &options) {
            Ok(trace) => check(&trace),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});

/// A prompt of this length shows all that a longer one would, in time for the next input.
const LONG: u64 = 100_000;

fn check(trace: &SessionTrace) {
    assert!(!trace.sessions.is_empty());
    let allowed = TokenRange::new(10..1_000).expect("a range");
    let synthesizer = PromptSynthesizer::new(trace.block_size, allowed, 1);
    for session in &trace.sessions {
        assert!(session.sub_agents.iter().all(|agent| agent.after <= session.requests.len()));
        for request in session.all_requests().filter(|request| request.input.get() <= LONG) {
            assert!(request.output.get() > 0);
            let recorded = request.to_trace_request();
            let full = trace.block_size.complete_blocks(request.input).get();
            assert_eq!(recorded.blocks.len() as u64, full);
            assert_eq!(synthesizer.prompt(0, &recorded).len() as u64, request.input.get());
        }
    }
    assert_eq!(trace.requests(), trace.sessions.iter().flat_map(Session::all_requests).count());
}
