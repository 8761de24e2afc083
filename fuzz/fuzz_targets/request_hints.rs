//! The headers by which a request may steer its selection.
//!
//! A line of the input is a header; its first byte chooses which: `s` a session, `p` a priority, `w` a worker, `o` weights,
//! `x` one of this program's that there is not.

#![no_main]

use http::{HeaderMap, HeaderValue};
use kvroute_router::fuzz::read_hints;
use libfuzzer_sys::fuzz_target;

/// Priorities are from the negative of it to it.
const HIGHEST_PRIORITY: i32 = 100;

fuzz_target!(|input: &[u8]| {
    let mut headers = HeaderMap::new();
    for line in input.split(|byte| *byte == b'\n') {
        let [kind, value @ ..] = line else { continue };
        let name = match kind {
            b's' => "x-session-id",
            b'p' => "x-kvroute-priority",
            b'w' => "x-kvroute-worker",
            b'o' => "x-kvroute-override",
            b'x' => "x-kvroute-overide",
            _ => continue,
        };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        if headers.try_append(name, value).is_err() {
            return;
        }
    }
    let of_stranger = read_hints(&headers, false);
    let of_trusted = read_hints(&headers, true);
    for told in [&of_stranger, &of_trusted] {
        match told {
            Ok(hints) => assert!(hints.priority.abs() <= HIGHEST_PRIORITY, "{hints:?}"),
            Err(error) => assert!(error.status() == 400 && !error.to_string().is_empty(), "{error}"),
        }
    }
    if let Ok(hints) = &of_stranger {
        assert!(hints.pin.is_none() && !hints.has_overrides, "a stranger steers: {hints:?}");
    }
    if let (Ok(stranger), Ok(trusted)) = (&of_stranger, &of_trusted) {
        assert_eq!((stranger.has_session, stranger.priority), (trusted.has_session, trusted.priority));
    }
    assert!(of_trusted.is_err() || of_stranger.is_ok(), "trust makes mistakes, it mends none");
    if let Ok(hints) = &of_trusted {
        assert!(!headers.contains_key("x-kvroute-overide"), "an unknown header passes: {hints:?}");
    }
});
