//! Server-sent events, and what is done to them on request.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use crate::faults::Faults;

/// The start of a chunk, with bytes that are no UTF-8.
const GARBAGE: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"con\xff\xfe\n\n";

/// Events that leave with the next write.
#[derive(Debug)]
pub(super) struct EventBuffer {
    bytes: BytesMut,
    chunks: u32,
    garbage_after: Option<u32>,
    break_after: Option<u32>,
    truncated_usage: bool,
    is_broken: bool,
}

// === impl EventBuffer ===

impl EventBuffer {
    pub(super) fn new(faults: &Faults) -> Self {
        let mut buffer = Self {
            bytes: BytesMut::new(),
            chunks: 0,
            garbage_after: faults.garbage_after_chunks,
            break_after: faults.break_after_chunks,
            truncated_usage: faults.truncated_usage,
            is_broken: false,
        };
        buffer.apply_faults();
        buffer
    }

    /// Adds a chunk.
    pub(super) fn chunk(&mut self, chunk: &impl Serialize) {
        self.json("", chunk, false);
    }

    /// Adds the usage chunk.
    pub(super) fn usage_chunk(&mut self, chunk: &impl Serialize) {
        self.json("", chunk, self.truncated_usage);
    }

    /// Adds an event with a name.
    pub(super) fn event(&mut self, name: &'static str, event: &impl Serialize) {
        self.json(name, event, false);
    }

    /// Adds the event that tells the usage.
    pub(super) fn usage_event(&mut self, name: &'static str, event: &impl Serialize) {
        self.json(name, event, self.truncated_usage);
    }

    /// Adds the end mark.
    pub(super) fn done(&mut self) {
        if !self.is_broken {
            self.bytes.put_slice(b"data: [DONE]\n\n");
        }
    }

    /// Whether the connection is to be cut behind what was written.
    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Takes what was written.
    pub(super) fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    fn json(&mut self, name: &'static str, chunk: &impl Serialize, truncated: bool) {
        if self.is_broken {
            return;
        }
        if !name.is_empty() {
            for part in ["event: ", name, "\n"] {
                self.bytes.put_slice(part.as_bytes());
            }
        }
        self.bytes.put_slice(b"data: ");
        let start = self.bytes.len();
        // Structs of numbers and texts always have a JSON form.
        let written = serde_json::to_writer((&mut self.bytes).writer(), chunk);
        debug_assert!(written.is_ok(), "a chunk is JSON: {written:?}");
        if truncated {
            self.bytes.truncate(start + (self.bytes.len() - start) / 2);
        }
        self.bytes.put_slice(b"\n\n");
        self.chunks += 1;
        self.apply_faults();
    }

    fn apply_faults(&mut self) {
        if self.garbage_after == Some(self.chunks) {
            self.bytes.put_slice(GARBAGE);
        }
        self.is_broken = self.break_after == Some(self.chunks);
    }
}
