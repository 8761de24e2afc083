//! The name of a request: the client's own where it gave a usable one, made here otherwise.

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
            Some(given) if !given.is_empty() && given.len() <= LONGEST => given.clone(),
            _ => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let serial = self.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("req-{:08x}-{serial:x}", self.process);
        HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("req"))
    }
}
