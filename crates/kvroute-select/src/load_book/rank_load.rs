//! The sum of the attempts on one rank, with shared blocks counted once.

use std::time::Duration;

use kvroute_core::{AttemptId, Blocks, Tokens, TokensPerSecond, WorkerLoad};

use super::attempt::{BookedAttempt, Growth};
use super::pace::Pace;
use super::prompt_tree::PromptTree;
use super::recent::{Faded, RecentWork};
use super::unseen::UnseenPrefills;

/// Load of one rank.
#[derive(Debug, Default)]
pub(super) struct RankLoad {
    prefill: Tokens,
    active: u64,
    private: Blocks,
    context: Tokens,
    /// Blocks of its prompts, each once.
    shared: Blocks,
    unseen: UnseenPrefills,
    recent: RecentWork,
    /// Whether a decision has chosen from it.
    is_known: bool,
    pace: Pace,
}

// === impl RankLoad ===

impl RankLoad {
    pub(super) fn load(&self) -> WorkerLoad {
        WorkerLoad {
            prefill_tokens: self.prefill,
            decode_blocks: self.private + self.shared,
            active_requests: self.active,
        }
    }

    pub(super) fn add(
        &mut self,
        id: AttemptId,
        attempt: &BookedAttempt,
        new: Blocks,
        now: Duration,
        faded: Faded,
    ) {
        self.active += 1;
        self.prefill += attempt.prefill();
        self.private += attempt.private();
        self.context += attempt.context();
        self.shared += new;
        self.recent.add(attempt.prefill(), faded);
        if !attempt.shows_first_token() {
            self.unseen.push(id, self.pace.time_of(attempt.prefill()), now);
        }
    }

    /// The prompt of an attempt will not be computed to its end: it was refused, or nobody waits for it any more. What the
    /// rank had the time to compute stays: if it hangs, it would look like one that was given nothing as soon as its
    /// clients give up, and be given the next request each time.
    pub(super) fn left_undone(&mut self, attempt: &BookedAttempt, faded: Faded, now: Duration) {
        let had = self.pace.tokens_in(now.saturating_sub(attempt.booked_at()));
        self.recent.take_back(attempt.prefill().saturating_sub(had), faded);
    }

    /// Takes an attempt out, as it is now.
    pub(super) fn remove(&mut self, id: AttemptId, attempt: &BookedAttempt, gone: Blocks, now: Duration) {
        self.active -= 1;
        self.prefill -= attempt.prefill();
        self.private -= attempt.private();
        self.context -= attempt.context();
        self.shared -= gone;
        if !attempt.shows_first_token() {
            self.unseen.remove(id, now);
        }
    }

    /// The attempt's first token came: its prefill is done, and shows how fast the rank is.
    pub(super) fn saw_first_token(
        &mut self,
        attempt: &mut BookedAttempt,
        prompts: &mut PromptTree,
        now: Duration,
    ) {
        if attempt.is_unfinished() && attempt.shows_first_token() {
            self.pace.computed(attempt.prefill(), attempt.booked_at(), now);
        }
        self.finish_prefill(attempt, prompts);
    }

    pub(super) fn finish_prefill(&mut self, attempt: &mut BookedAttempt, prompts: &mut PromptTree) {
        if !attempt.is_unfinished() {
            return;
        }
        self.prefill -= attempt.finish_prefill(prompts);
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

    pub(super) const fn is_known(&self) -> bool {
        self.is_known
    }

    pub(super) fn welcome(&mut self, recent: Tokens, faded: Faded) {
        if !self.is_known {
            self.is_known = true;
            self.recent.add(recent.saturating_sub(self.recent.left(faded)), faded);
        }
    }

    pub(super) fn renew_recent(&mut self, faded: Faded) {
        self.recent.renew(faded);
    }

    pub(super) fn prefill_speed(&self) -> Option<TokensPerSecond> {
        self.pace.tokens_a_second()
    }

    pub(super) fn backlog_time(&self) -> Duration {
        self.time_of(self.prefill)
    }

    pub(super) fn time_of(&self, tokens: Tokens) -> Duration {
        self.pace.time_of(tokens)
    }
}
