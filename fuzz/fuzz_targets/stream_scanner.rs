//! An engine's stream: the same bytes go out and the same things are seen however the network cuts it, and nothing is
//! missing but what the router took out.
//!
//! The first two bytes choose the cuts.

#![no_main]

use bytes::Bytes;
use kvroute_fuzz::Pieces;
use kvroute_openai::{Endpoint, ErrorBody, Observation, StreamScanner, TokenIds, Unasked, UsageChunk};
use libfuzzer_sys::fuzz_target;

/// What came out of a stream.
#[derive(Debug)]
struct Scanned {
    forwarded: Vec<u8>,
    /// Without the places of token ids, which follow from how the stream was cut.
    observations: Vec<Observation>,
    /// The ids of each list; `None` for one that cannot be read.
    token_ids: Vec<Option<Vec<u32>>>,
    /// The most that had been taken and not (yet) forwarded.
    most_held: usize,
}

fuzz_target!(|input: &[u8]| {
    let [seed, longest, stream @ ..] = input else { return };
    let in_pieces = Pieces::new(stream, *seed, *longest);
    let unasked = if seed.is_multiple_of(2) { Unasked::Null } else { Unasked::Absent };
    for usage in [UsageChunk::Forward, UsageChunk::Withhold] {
        let unread = check(usage, TokenIds::Ignore, &in_pieces, stream);
        let read = scan(usage, TokenIds::Read, Pieces::whole(stream));
        assert_eq!(unread.forwarded, read.forwarded, "a look at ids changes no byte");
        let withheld = check(usage, TokenIds::Withhold(unasked), &in_pieces, stream);
        if stream.len() <= StreamScanner::MAX_LINE {
            assert_eq!(read.token_ids, withheld.token_ids, "what is taken out was read");
        }
    }
    for endpoint in Endpoint::ALL {
        break_off(in_pieces.clone(), endpoint);
    }
});

fn check(usage: UsageChunk, ids: TokenIds, in_pieces: &Pieces<'_>, stream: &[u8]) -> Scanned {
    let scanned = scan(usage, ids, in_pieces.clone());
    let at_once = scan(usage, ids, Pieces::whole(stream));
    assert_eq!(scanned.forwarded, at_once.forwarded);
    assert_eq!((&scanned.observations, &scanned.token_ids), (&at_once.observations, &at_once.token_ids));
    if !may_hold_private_data(stream, ids) && (usage == UsageChunk::Forward || !scanned.tells_usage()) {
        assert_eq!(scanned.forwarded, stream, "{usage:?} {ids:?}");
        let longest = match ids {
            TokenIds::Withhold(_) => StreamScanner::MAX_LINE_WITH_IDS,
            TokenIds::Ignore | TokenIds::Read => StreamScanner::MAX_LINE,
        };
        assert!(scanned.most_held <= longest, "holds {} bytes", scanned.most_held);
    }
    let again = scan(usage, ids, Pieces::whole(&scanned.forwarded));
    assert_eq!(again.forwarded, scanned.forwarded, "something private is left");
    scanned
}

fn scan(usage: UsageChunk, ids: TokenIds, pieces: Pieces<'_>) -> Scanned {
    let mut scanner = StreamScanner::with_token_ids(usage, ids);
    let mut scanned =
        Scanned { forwarded: Vec::new(), observations: Vec::new(), token_ids: Vec::new(), most_held: 0 };
    let mut taken = 0;
    for piece in pieces {
        taken += piece.len();
        let mut observations = Vec::new();
        let forward = scanner.push(&Bytes::copy_from_slice(piece), &mut observations);
        scanned.take(&forward, observations, &scanner);
        scanned.most_held = scanned.most_held.max(taken - scanned.forwarded.len().min(taken));
    }
    let mut observations = Vec::new();
    let rest = scanner.finish(&mut observations);
    scanned.take(&rest, observations, &scanner);
    assert_eq!(scanner.is_done(), scanned.observations.contains(&Observation::Done));
    scanned
}

// === impl Scanned ===

impl Scanned {
    fn take(&mut self, forward: &[u8], observations: Vec<Observation>, scanner: &StreamScanner) {
        self.forwarded.extend_from_slice(forward);
        for observation in observations {
            let Observation::Generated { choice, ids } = observation else {
                self.observations.push(observation);
                continue;
            };
            self.observations.push(Observation::Generated { choice, ids: None });
            self.token_ids.push(ids.map(|span| {
                assert_eq!(span.of(scanner.token_ids()).len(), span.count());
                span.of(scanner.token_ids()).to_vec()
            }));
        }
    }

    fn tells_usage(&self) -> bool {
        self.observations.iter().any(|seen| matches!(seen, Observation::Usage(_)))
    }
}

/// The keys as they are, or maybe with escapes.
fn may_hold_private_data(stream: &[u8], ids: TokenIds) -> bool {
    let holds = |text: &[u8]| stream.windows(text.len()).any(|window| window == text);
    let may_hold_ids = matches!(ids, TokenIds::Withhold(_)) && holds(b"token_ids");
    holds(b"engine_data") || holds(b"\\u") || may_hold_ids
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
        Endpoint::Responses | Endpoint::Messages => b"event: error\ndata: {\"type\":\"error\",",
        _ => b"data: {\"error\":",
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
