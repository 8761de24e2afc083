//! Gathers what is forwarded of one chunk, without copying where nothing was taken out.

use std::ops::Range;

use bytes::Bytes;

/// The output of one push.
#[derive(Debug)]
pub(super) struct Forward<'a> {
    chunk: &'a Bytes,
    /// What was copied out so far: everything before `kept`.
    copied: Vec<u8>,
    /// The last run of the chunk that is kept whole.
    kept: Range<usize>,
}

// === impl Forward ===

impl<'a> Forward<'a> {
    pub(super) const fn new(chunk: &'a Bytes) -> Self {
        Self { chunk, copied: Vec::new(), kept: 0..0 }
    }

    pub(super) fn chunk_from(&self, start: usize) -> &'a [u8] {
        &self.chunk[start..]
    }

    pub(super) fn chunk_range(&self, range: Range<usize>) -> &'a [u8] {
        &self.chunk[range]
    }

    /// Forwards these bytes of the chunk.
    pub(super) fn keep(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if self.kept.end != range.start {
            self.copy_kept();
            self.kept.start = range.start;
        }
        self.kept.end = range.end;
    }

    /// Forwards bytes that do not stand in the chunk.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.copied.is_empty() {
            self.copied.reserve(self.chunk.len() + bytes.len());
        }
        self.copy_kept();
        self.copied.extend_from_slice(bytes);
    }

    pub(super) fn finish(mut self) -> Bytes {
        if self.copied.is_empty() {
            return self.chunk.slice(self.kept);
        }
        self.copy_kept();
        Bytes::from(self.copied)
    }

    fn copy_kept(&mut self) {
        self.copied.extend_from_slice(&self.chunk[self.kept.clone()]);
        self.kept.start = self.kept.end;
    }
}
