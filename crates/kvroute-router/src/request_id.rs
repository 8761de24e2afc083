//! The name of a request: the client's own where it gave a usable one, made here otherwise.
//!
//! Usable is what can be written down and asked for again: a decision is kept under the request's name, and a name that
//! is no text would leave it without one. Who gave such a name learns from the answer that it has another.

use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue};

use crate::headers::REQUEST_ID;

/// Longest client-given id that is taken over; a longer one would only fill logs.
const LONGEST: usize = 256;

/// Makes ids that are unique in this process and differ between processes.
#[derive(Debug)]
pub(crate) struct RequestIds {
    process: u32,
    next: AtomicU64,
}

// === impl RequestIds ===

impl RequestIds {
    /// Ids of a process that drew this random number at its start.
    pub(crate) const fn new(process: u32) -> Self {
        Self { process, next: AtomicU64::new(1) }
    }

    /// The id of one request.
    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(REQUEST_ID) {
            Some(given) if is_usable(given) => given.clone(),
            _ => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("req-{:08x}-{serial:x}", self.process);
        HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("req"))
    }
}

/// Whether it is visible ASCII, and not too long.
fn is_usable(given: &HeaderValue) -> bool {
    let is_text = |text: &str| !text.trim().is_empty() && text.len() <= LONGEST;
    given.to_str().is_ok_and(is_text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(given: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(given).unwrap());
        RequestIds::new(7).of(&headers).to_str().unwrap().to_owned()
    }

    #[test]
    fn a_name_that_can_be_written_down_is_taken_over() {
        let longest = "a".repeat(LONGEST);
        for given in ["a", "a b", "a/b?c#d", "\"<x>'", "d-00000000-0", &longest] {
            assert_eq!(name_of(given.as_bytes()), given);
        }
    }

    #[test]
    fn a_name_that_is_no_text_was_kept_as_an_empty_one() {
        for given in ["é", "été", "名", "a\u{80}"] {
            assert_eq!(name_of(given.as_bytes()), "req-00000007-1", "{given:?}");
        }
        assert_eq!(name_of(b"\xe9t\xe9"), "req-00000007-1", "nor is it UTF-8");
    }

    #[test]
    fn no_name_and_too_long_a_name_give_one_made_here_that_no_other_request_has() {
        let too_long = "a".repeat(LONGEST + 1);
        for given in ["", " ", &too_long] {
            assert_eq!(name_of(given.as_bytes()), "req-00000007-1", "{} bytes", given.len());
        }
        let ids = RequestIds::new(7);
        let none = HeaderMap::new();
        assert_ne!(ids.of(&none), ids.of(&none));
    }
}
