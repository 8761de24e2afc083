//! The files that say who may ask: what is wrong in one is named by its line, and never by what stands there, which may be
//! a secret.

#![no_main]

use kvroute_server::{AdminTokens, ApiKeys};
use libfuzzer_sys::fuzz_target;

/// As long as the shortest secret; no word of a message is.
const SECRET: usize = 16;

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(error) = ApiKeys::parse(text) {
        check(text, &error.to_string());
    }
    if let Err(error) = AdminTokens::parse(text) {
        check(text, &error.to_string());
    }
    // A comment and an empty line change nothing.
    let commented = format!("# a comment\n\n{text}");
    assert_eq!(ApiKeys::parse(&commented).is_ok(), ApiKeys::parse(text).is_ok());
    assert_eq!(AdminTokens::parse(&commented).is_ok(), AdminTokens::parse(text).is_ok());
});

fn check(text: &str, message: &str) {
    assert!(!message.is_empty());
    for word in text.split_whitespace().filter(|word| word.len() >= SECRET) {
        assert!(!message.contains(word), "{message:?} repeats {word:?}");
    }
}
