//! A stream that breaks anywhere, and another engine's stream behind it: what is kept of the first one is what its client
//! has, and the second one is told apart by nothing.
//!
//! The first two bytes choose the cuts; the streams are separated by a byte `0xff`, which no text holds.

#![no_main]

use bytes::Bytes;
use kvroute_fuzz::Pieces;
use kvroute_openai::{Delivered, StreamScanner, TokenIds, UsageChunk, UsageCorrection};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

const IDENTITY: [&str; 4] = ["id", "created", "model", "system_fingerprint"];

fuzz_target!(|input: &[u8]| {
    let [seed, longest, streams @ ..] = input else { return };
    let mut streams = streams.splitn(2, |byte| *byte == 0xff);
    let (first, second) = (streams.next().unwrap_or_default(), streams.next().unwrap_or_default());
    let (passed, kept) = scan(Delivered::new(None), Pieces::new(first, *seed, *longest));
    let (at_once, kept_at_once) = scan(Delivered::new(None), Pieces::whole(first));
    assert_eq!(
        (&passed, kept.text(), kept.token_ids()),
        (&at_once, kept_at_once.text(), kept_at_once.token_ids())
    );
    if kept.obstacle().is_some() {
        return;
    }
    let told = parts(&passed);
    if told.len() < lines(&passed).count() {
        return; // A tree holds no number beyond a double.
    }
    assert_eq!(kept.text(), text_of(&told), "what is kept is what passed");
    let continued = kept.continued_behind(usize::from(*seed));
    let (passed, _) = scan(continued, Pieces::new(second, *seed, *longest));
    for part in parts(&passed) {
        for name in IDENTITY {
            let first = told.iter().find_map(|part| part.get(name));
            assert!(first.is_none() || part.get(name).is_none_or(|own| Some(own) == first), "another {name}");
        }
    }
});

fn scan(delivered: Delivered, pieces: Pieces<'_>) -> (Vec<u8>, Delivered) {
    let correction = UsageCorrection { prompt: Some(3), cached: None, completion_before: 2 };
    let mut scanner = StreamScanner::with_token_ids(UsageChunk::Forward, TokenIds::Read)
        .correcting(correction)
        .keeping(delivered);
    let mut passed = Vec::new();
    for piece in pieces {
        passed.extend_from_slice(&scanner.push(&Bytes::copy_from_slice(piece), &mut Vec::new()));
    }
    let (separator, delivered) = scanner.suspend();
    passed.extend_from_slice(&separator);
    (passed, delivered.expect("it is kept"))
}

/// What a client reads of a stream.
fn parts(stream: &[u8]) -> Vec<Map<String, Value>> {
    lines(stream).filter_map(|data| serde_json::from_slice(data).ok()).collect()
}

fn lines(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = stream.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.filter_map(|line| line.strip_prefix(b"data:")).map(<[u8]>::trim_ascii)
}

fn text_of(parts: &[Map<String, Value>]) -> String {
    let mut text = String::new();
    for part in parts {
        let choice = part.get("choices").map_or(&Value::Null, |choices| &choices[0]);
        for said in [&choice["text"], &choice["delta"]["content"], &choice["message"]["content"]] {
            text.push_str(said.as_str().unwrap_or_default());
        }
    }
    text
}
