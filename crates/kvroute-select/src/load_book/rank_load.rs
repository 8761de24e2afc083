//! The sum of the attempts on one rank, with shared blocks counted once.

use std::time::Duration;

use kvroute_core::{AttemptId, Blocks, PrehashedMap, SequenceHash, Tokens, WorkerLoad};

use super::attempt::{BookedAttempt, Growth};
use super::pace::Pace;
use super::recent::{Faded, RecentWork};
use super::unseen::UnseenPrefills;

/// Room of a map that is worth giving back while others still use the map.
const WORTH_SHRINKING: usize = 1024;

/// Load of one rank.
#[derive(Debug, Default)]
pub(super) struct RankLoad {
    prefill: Tokens,
    active: u64,
    private: Blocks,
    context: Tokens,
    shared: PrehashedMap<SequenceHash, Users>,
    /// Prompts that are not computed yet: without any, no block is expected.
    unfinished: u64,
    unseen: UnseenPrefills,
    recent: RecentWork,
    pace: Pace,
}

/// Prompts in flight that hold a block.
#[derive(Clone, Copy, Debug, Default)]
struct Users {
    all: u32,
    /// Those that are not computed yet, and so are about to bring it.
    unfinished: u32,
}

// === impl RankLoad ===

impl RankLoad {
    pub(super) fn load(&self) -> WorkerLoad {
        WorkerLoad {
            prefill_tokens: self.prefill,
            decode_blocks: self.private + Blocks::from(self.shared.len()),
            active_requests: self.active,
        }
    }

    pub(super) fn add(&mut self, id: AttemptId, attempt: &BookedAttempt, now: Duration, faded: Faded) {
        self.active += 1;
        self.prefill += attempt.prefill();
        self.private += attempt.private();
        self.context += attempt.context();
        self.unfinished += 1;
        for sequence in attempt.shared() {
            let users = self.shared.entry(*sequence).or_default();
            users.all += 1;
            users.unfinished += 1;
        }
        self.recent.add(attempt.prefill(), faded);
        if !attempt.shows_first_token() {
            self.unseen.push(id, self.pace.time_of(attempt.prefill()), now);
        }
    }

    /// Takes an attempt out, as it is now.
    pub(super) fn remove(&mut self, id: AttemptId, attempt: &BookedAttempt, now: Duration) {
        self.active -= 1;
        self.prefill -= attempt.prefill();
        self.private -= attempt.private();
        self.context -= attempt.context();
        self.unfinished -= u64::from(attempt.is_unfinished());
        for sequence in attempt.shared() {
            self.release_shared(*sequence, attempt.is_unfinished());
        }
        if !attempt.shows_first_token() {
            self.unseen.remove(id, now);
        }
        self.give_back();
    }

    /// The attempt's first token came: its prefill is done, and shows how fast the rank is.
    pub(super) fn saw_first_token(&mut self, attempt: &mut BookedAttempt, now: Duration) {
        if attempt.is_unfinished() && attempt.shows_first_token() {
            self.pace.computed(attempt.prefill(), attempt.booked_at(), now);
        }
        self.finish_prefill(attempt);
    }

    pub(super) fn finish_prefill(&mut self, attempt: &mut BookedAttempt) {
        if !attempt.is_unfinished() {
            return;
        }
        self.prefill -= attempt.finish_prefill();
        self.unfinished -= 1;
        for sequence in attempt.shared() {
            if let Some(users) = self.shared.get_mut(sequence) {
                users.unfinished -= 1;
            }
        }
    }

    /// Takes out the next attempt whose prefill should be over by now though nobody saw it.
    pub(super) fn next_due(&mut self, now: Duration) -> Option<AttemptId> {
        self.unseen.pop_due(now)
    }

    pub(super) fn grow(&mut self, grown: Growth, tokens: Tokens, faded: Faded) {
        self.private += grown.blocks;
        self.context += grown.context;
        self.recent.add(tokens, faded);
    }

    pub(super) const fn context(&self) -> Tokens {
        self.context
    }

    pub(super) fn recent(&self, faded: Faded) -> Tokens {
        self.recent.left(faded)
    }

    pub(super) fn renew_recent(&mut self, faded: Faded) {
        self.recent.renew(faded);
    }

    pub(super) fn prefill_speed(&self) -> Option<f64> {
        self.pace.tokens_a_second()
    }

    pub(super) fn backlog_time(&self) -> Duration {
        self.pace.time_of(self.prefill)
    }

    /// Whole chains are booked, from the first block on, so a block that is expected has all blocks before it expected
    /// too, and a search may begin wherever the cached prefix ended.
    pub(super) fn expected_after(&self, hashes: &[SequenceHash], cached: Blocks) -> Blocks {
        if self.unfinished == 0 {
            return Blocks::ZERO;
        }
        let is_expected =
            |hash: &SequenceHash| self.shared.get(hash).is_some_and(|users| users.unfinished > 0);
        let start = usize::try_from(cached.get()).unwrap_or(usize::MAX).min(hashes.len());
        match &hashes[start..] {
            [first, behind @ ..] if is_expected(first) => {
                Blocks::from(1 + behind.partition_point(is_expected))
            }
            _ => Blocks::ZERO,
        }
    }

    /// Room of its table of blocks.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.shared.capacity()
    }

    fn release_shared(&mut self, sequence: SequenceHash, was_unfinished: bool) {
        let Some(users) = self.shared.get_mut(&sequence) else { return };
        users.all -= 1;
        users.unfinished -= u32::from(was_unfinished);
        if users.all == 0 {
            self.shared.remove(&sequence);
        }
    }

    /// A rank at rest keeps no table; a busy one at most four times what it needs.
    fn give_back(&mut self) {
        if self.active == 0 {
            self.shared = PrehashedMap::default();
        } else if self.shared.capacity() > WORTH_SHRINKING && self.shared.len() < self.shared.capacity() / 4 {
            self.shared.shrink_to(2 * self.shared.len());
        }
    }
}
