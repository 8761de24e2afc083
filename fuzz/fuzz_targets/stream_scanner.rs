//! An engine's stream: the same bytes go out and the same things are seen however the network cuts it, and nothing is
//! missing but what the router took out.
//!
//! The first two bytes choose the cuts.

#![no_main]

use bytes::Bytes;
use kvroute_fuzz::Pieces;
use kvroute_openai::{Endpoint, ErrorBody, Observation, StreamScanner, UsageChunk};
use libfuzzer_sys::fuzz_target;

/// What came out of a stream.
#[derive(Debug)]
struct Scanned {
    forwarded: Vec<u8>,
    observations: Vec<Observation>,
    /// The most that had been taken and not (yet) forwarded.
    most_held: usize,
}

fuzz_target!(|input: &[u8]| {
    let [seed, longest, stream @ ..] = input else { return };
    let in_pieces = Pieces::new(stream, *seed, *longest);
    let is_public = !may_hold_private_data(stream);
    for mode in [UsageChunk::Forward, UsageChunk::Withhold] {
        let scanned = scan(mode, in_pieces.clone());
        let at_once = scan(mode, Pieces::whole(stream));
        assert_eq!((&scanned.forwarded, &scanned.observations), (&at_once.forwarded, &at_once.observations));
        if is_public && (mode == UsageChunk::Forward || !scanned.tells_usage()) {
            assert_eq!(scanned.forwarded, stream, "{mode:?}");
            assert!(scanned.most_held <= StreamScanner::MAX_LINE, "holds {} bytes", scanned.most_held);
        }
        let again = scan(mode, Pieces::whole(&scanned.forwarded));
        assert_eq!(again.forwarded, scanned.forwarded, "something private is left");
    }
    for endpoint in Endpoint::ALL {
        break_off(in_pieces.clone(), endpoint);
    }
});

fn scan(mode: UsageChunk, pieces: Pieces<'_>) -> Scanned {
    let mut scanner = StreamScanner::new(mode);
    let (mut forwarded, mut observations) = (Vec::new(), Vec::new());
    let (mut taken, mut most_held) = (0, 0);
    for piece in pieces {
        taken += piece.len();
        forwarded.extend_from_slice(&scanner.push(&Bytes::copy_from_slice(piece), &mut observations));
        most_held = most_held.max(taken - forwarded.len());
    }
    forwarded.extend_from_slice(&scanner.finish(&mut observations));
    assert_eq!(scanner.is_done(), observations.contains(&Observation::Done));
    Scanned { forwarded, observations, most_held }
}

// === impl Scanned ===

impl Scanned {
    fn tells_usage(&self) -> bool {
        self.observations.iter().any(|seen| matches!(seen, Observation::Usage(_)))
    }
}

/// The key as it is, or maybe with escapes.
fn may_hold_private_data(stream: &[u8]) -> bool {
    stream.windows(11).any(|window| window == b"engine_data")
        || stream.windows(2).any(|window| window == b"\\u")
}

/// The error is an event of its own, whatever a client got before the engine broke off.
fn break_off(pieces: Pieces<'_>, endpoint: Endpoint) {
    let mut scanner = StreamScanner::new(UsageChunk::Withhold);
    let mut forwarded = Vec::new();
    for piece in pieces {
        forwarded.extend_from_slice(&scanner.push(&Bytes::copy_from_slice(piece), &mut Vec::new()));
    }
    let error = ErrorBody::new("broken", "off");
    let event = scanner.break_off(&error, endpoint);
    let start = event.iter().take_while(|byte| **byte == b'\n').count();
    forwarded.extend_from_slice(&event);
    let before = &forwarded[..forwarded.len() - event.len() + start];
    assert!(is_between_events(before), "{:?}", String::from_utf8_lossy(before));
    let last: &[u8] = match endpoint {
        Endpoint::ChatCompletions | Endpoint::Completions => b"data: {\"error\":",
        Endpoint::Responses | Endpoint::Messages => b"event: error\ndata: {\"type\":\"error\",",
    };
    assert!(event[start..].starts_with(last) && event.ends_with(b"}\n\n"));
}

/// Whether the next line starts an event.
fn is_between_events(stream: &[u8]) -> bool {
    let (mut line_is_empty, mut event_is_empty, mut previous) = (true, true, 0);
    for &byte in stream {
        match byte {
            b'\n' if previous == b'\r' => {}
            b'\n' | b'\r' => (event_is_empty, line_is_empty) = (line_is_empty, true),
            _ => line_is_empty = false,
        }
        previous = byte;
    }
    line_is_empty && event_is_empty
}
