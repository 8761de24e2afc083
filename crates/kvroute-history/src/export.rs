//! The hashes of a history piece by piece, the oldest first, while others go on teaching it.

use kvroute_core::SequenceHash;

use crate::history::History;

/// Hashes in one piece.
const PIECE: u64 = 4096;

/// How far an export has come. The default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCursor {
    /// The next number of the queue.
    at: u64,
    /// What had been taught when the export began: it does not wait for more.
    end: Option<u64>,
}

// === impl History ===

impl History {
    /// Appends the next few thousand hashes at most, and says where to go on; `None` when that was the end. Takes no lock.
    ///
    /// Every hash that is resident from the export's beginning to its end is given once, the oldest one first.
    pub fn export(&self, from: ExportCursor, into: &mut Vec<SequenceHash>) -> Option<ExportCursor> {
        let view = self.queue().view();
        let end = from.end.unwrap_or_else(|| view.next());
        let first = from.at.max(view.oldest());
        let behind = (first + PIECE).min(end);
        self.queue().copy(first..behind, into);
        (behind < end).then_some(ExportCursor { at: behind, end: Some(end) })
    }
}
