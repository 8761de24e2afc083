//! Segments of text whose ids are known.
//!
//! The text itself is the key, so that what is found is never that of another text, whoever chose it.

use std::sync::Arc;

use kvroute_core::TokenId;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// What all of them may take, in bytes: the conversations of some minutes.
const CAPACITY: u64 = 16 * 1024 * 1024;
/// An entry beside its text and its ids.
const OVERHEAD: usize = 128;
/// About how many there are.
const ENTRIES: usize = 32 * 1024;

/// Ids by text, bounded in bytes.
#[derive(Debug)]
pub(super) struct Segments(Cache<Box<str>, Arc<[TokenId]>, Bytes>);

/// Weight of an entry.
#[derive(Clone, Debug)]
struct Bytes;

// === impl Segments ===

impl Segments {
    pub(super) fn new() -> Self {
        Self(Cache::with_weighter(ENTRIES, CAPACITY, Bytes))
    }

    pub(super) fn get(&self, text: &str) -> Option<Arc<[TokenId]>> {
        self.0.get(text)
    }

    pub(super) fn insert(&self, text: &str, ids: &[TokenId]) {
        self.0.insert(text.into(), ids.into());
    }
}

impl Weighter<Box<str>, Arc<[TokenId]>> for Bytes {
    fn weight(&self, text: &Box<str>, ids: &Arc<[TokenId]>) -> u64 {
        (text.len() + size_of_val::<[TokenId]>(ids) + OVERHEAD) as u64
    }
}
