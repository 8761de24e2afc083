//! A replay socket that is another engine's.
//!
//! Its answers are in order and of one piece, so nothing in them betrays it: an address typed wrong, or ranks off by one,
//! would fill the index with another cache and call it exact. What betrays it is a live message with a number that was
//! replayed. It must have the same content. So the contents of replayed messages are remembered until a live message is
//! beyond them. One that differs proves it: what is known goes, and the live messages alone count. A new connection asks
//! once more, but only the content of a live message, found again in the answer, restores trust.
//!
//! 16,384 hashes are 128 KiB a rank, and more messages than engines keep unless told otherwise. A live message below all
//! of them proves nothing.

use std::collections::VecDeque;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::{Channel, Source, SourceAction, SourceReason};

const MOST: usize = 1 << 14;

/// Contents of the last replayed messages, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Replayed {
    first: u64,
    contents: VecDeque<u64>,
}

// === impl Replayed ===

impl Replayed {
    /// To be told of each message that is applied, in order of the numbers.
    pub(super) fn applied(&mut self, channel: Channel, sequence: u64, content: u64) {
        if channel == Channel::Live {
            *self = Self::default();
            return;
        }
        if self.contents.is_empty() {
            self.first = sequence;
        }
        if self.contents.len() == MOST {
            self.contents.pop_front();
            self.first += 1;
        }
        self.contents.push_back(content);
    }

    fn contradicts(&self, sequence: u64, payload: &Bytes) -> bool {
        let index = sequence.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        let content = index.and_then(|index| self.contents.get(index));
        content.is_some_and(|content| *content != xxh3_64(payload))
    }
}

// === impl Source ===

impl Source {
    /// Whether live messages have shown that the replay socket is another engine's.
    pub const fn has_foreign_replay(&self) -> bool {
        self.is_replay_foreign
    }

    /// A live message that a replay seems to have brought already.
    pub(super) fn compare_with_replayed(
        &mut self,
        sequence: u64,
        payload: Bytes,
        actions: &mut Vec<SourceAction>,
    ) {
        if !self.replayed.contradicts(sequence, &payload) {
            return;
        }
        if let Some(replay) = &mut self.replay {
            // What waits was published before it, and is worked off first.
            let _is_within_bound = replay.backlog.push(sequence, payload);
            return self.give_up_replay(SourceReason::ReplayOfAnother, actions);
        }
        self.disown(actions);
        self.lose_unless_continued(sequence, SourceReason::ReplayOfAnother, actions);
        self.apply(Channel::Live, sequence, &payload, actions);
    }

    /// Whether a live message that waited proves that the replay is another engine's.
    pub(super) fn disown_if_contradicted(
        &mut self,
        sequence: u64,
        payload: &Bytes,
        actions: &mut Vec<SourceAction>,
    ) -> bool {
        let is_contradicted = self.replayed.contradicts(sequence, payload);
        if is_contradicted {
            self.disown(actions);
        }
        is_contradicted
    }

    fn disown(&mut self, actions: &mut Vec<SourceAction>) {
        self.is_replay_distrusted = true;
        self.is_replay_foreign = true;
        self.miss(SourceReason::ReplayOfAnother);
        self.forget(actions);
    }

    /// An answer that contradicts what live messages said, from a socket of which that was known.
    pub(super) fn disown_again(&mut self, actions: &mut Vec<SourceAction>) {
        self.disown(actions);
        self.work_off_backlog(SourceReason::ReplayOfAnother, false, actions);
    }
}
