//! Server-sent events, and what is done to them on request.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use crate::faults::Faults;

/// The start of a chunk, with bytes that are no UTF-8.
const GARBAGE: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"con\xff\xfe\n\n";

/// What ends an event.
const END: &[u8] = b"\n\n";

/// Events that leave with the next write.
#[derive(Debug)]
pub(super) struct EventBuffer {
    bytes: BytesMut,
    chunks: u32,
    garbage_after: Option<u32>,
    cuts: [(Option<u32>, Cut); 3],
    truncated_usage: bool,
    cut: Option<Cut>,
}

/// How a stream is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The connection breaks.
    Break,
    /// Nothing more comes.
    Stall,
    /// It ends as if it were complete.
    End,
}

// === impl EventBuffer ===

impl EventBuffer {
    pub(super) fn new(faults: &Faults) -> Self {
        let mut buffer = Self {
            bytes: BytesMut::new(),
            chunks: 0,
            garbage_after: faults.garbage_after_chunks,
            cuts: [
                (faults.break_after_chunks, Cut::Break),
                (faults.stall_after_chunks, Cut::Stall),
                (faults.end_after_chunks, Cut::End),
            ],
            truncated_usage: faults.truncated_usage,
            cut: None,
        };
        buffer.apply_faults();
        buffer
    }

    /// Adds a chunk.
    pub(super) fn chunk(&mut self, chunk: &impl Serialize) {
        self.json("", chunk, false);
    }

    /// Adds a chunk, perhaps with a blank at the end of its line.
    pub(super) fn padded_chunk(&mut self, chunk: &impl Serialize, is_padded: bool) {
        self.chunk(chunk);
        if is_padded && self.cut.is_none() {
            self.bytes.truncate(self.bytes.len() - END.len());
            self.bytes.put_u8(b' ');
            self.bytes.put_slice(END);
        }
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
        if self.cut.is_none() {
            self.bytes.put_slice(b"data: [DONE]\n\n");
        }
    }

    /// Whether the stream is cut short behind what was written, and how.
    pub(super) const fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Takes what was written.
    pub(super) fn take(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }

    fn json(&mut self, name: &'static str, chunk: &impl Serialize, truncated: bool) {
        if self.cut.is_some() {
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
        self.bytes.put_slice(END);
        self.chunks += 1;
        self.apply_faults();
    }

    fn apply_faults(&mut self) {
        if self.garbage_after == Some(self.chunks) {
            self.bytes.put_slice(GARBAGE);
        }
        let due = self.cuts.iter().find(|(after, _)| *after == Some(self.chunks));
        self.cut = due.map(|(_, cut)| *cut);
    }
}
