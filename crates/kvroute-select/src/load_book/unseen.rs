//! Prompts that are being computed without anybody seeing the end of it: one after the other, each for the time that
//! it should take.

use std::collections::VecDeque;
use std::time::Duration;

use kvroute_core::AttemptId;

/// The prompts of a rank's whole answers, in the order of their placement.
#[derive(Debug, Default)]
pub(super) struct UnseenPrefills {
    waiting: VecDeque<(AttemptId, Duration)>,
    /// Since when the first one is computed.
    first_since: Duration,
}

// === impl UnseenPrefills ===

impl UnseenPrefills {
    /// A prompt that should take so long is placed behind the others.
    pub(super) fn push(&mut self, id: AttemptId, takes: Duration, now: Duration) {
        if self.waiting.is_empty() {
            self.first_since = now;
        }
        self.waiting.push_back((id, takes));
    }

    /// Takes out the first one if it should be done by now.
    pub(super) fn pop_due(&mut self, now: Duration) -> Option<AttemptId> {
        let (_, takes) = self.waiting.front()?;
        let due = self.first_since + *takes;
        if due > now {
            return None;
        }
        self.first_since = due;
        self.waiting.pop_front().map(|(id, _)| id)
    }

    /// The attempt is over, computed or not. Those behind it move up.
    pub(super) fn remove(&mut self, id: AttemptId, now: Duration) {
        let Some(position) = self.waiting.iter().position(|(waiting, _)| *waiting == id) else { return };
        self.waiting.remove(position);
        if position == 0 {
            self.first_since = now;
        }
    }
}
