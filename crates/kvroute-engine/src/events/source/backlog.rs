//! Live messages that wait for an answer, of the replay socket or about the engine's start: bounded by count and bytes.

use std::collections::VecDeque;

use bytes::Bytes;

const MAX_MESSAGES: usize = 10_000;
const MAX_BYTES: usize = 64 << 20;

/// Messages in the order of their sequence numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    messages: VecDeque<(u64, Bytes)>,
    bytes: usize,
}

// === impl Backlog ===

impl Backlog {
    /// False when the bound is passed; the message is kept all the same.
    #[must_use = "a backlog above its bound must be worked off"]
    pub(super) fn push(&mut self, sequence: u64, payload: Bytes) -> bool {
        self.bytes += payload.len();
        self.messages.push_back((sequence, payload));
        self.messages.len() <= MAX_MESSAGES && self.bytes <= MAX_BYTES
    }

    pub(super) fn pop(&mut self) -> Option<(u64, Bytes)> {
        let (sequence, payload) = self.messages.pop_front()?;
        self.bytes -= payload.len();
        Some((sequence, payload))
    }

    /// The newest sequence number that waits.
    pub(super) fn back(&self) -> Option<u64> {
        self.messages.back().map(|(sequence, _)| *sequence)
    }

    /// The oldest sequence number that waits.
    pub(super) fn front(&self) -> Option<u64> {
        self.messages.front().map(|(sequence, _)| *sequence)
    }
}
