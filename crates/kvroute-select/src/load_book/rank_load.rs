//! The sum of the attempts on one rank, with shared blocks counted once.

use kvroute_core::{Blocks, PrehashedMap, SequenceHash, Tokens, WorkerLoad};

use super::attempt::BookedAttempt;

/// Load of one rank.
#[derive(Debug, Default)]
pub(super) struct RankLoad {
    prefill: Tokens,
    active: u64,
    private: Blocks,
    /// How many prompts in flight use a block.
    shared: PrehashedMap<SequenceHash, u32>,
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

    pub(super) fn add(&mut self, attempt: &BookedAttempt) {
        self.active += 1;
        self.prefill += attempt.prefill();
        self.private += attempt.private();
        for sequence in attempt.shared() {
            *self.shared.entry(*sequence).or_default() += 1;
        }
    }

    /// Takes an attempt out, as it is now.
    pub(super) fn remove(&mut self, attempt: &BookedAttempt) {
        self.active -= 1;
        self.prefill -= attempt.prefill();
        self.private -= attempt.private();
        for sequence in attempt.shared() {
            self.release_shared(*sequence);
        }
    }

    pub(super) fn finish_prefill(&mut self, freed: Tokens) {
        self.prefill -= freed;
    }

    pub(super) fn grow(&mut self, taken: Blocks) {
        self.private += taken;
    }

    fn release_shared(&mut self, sequence: SequenceHash) {
        let Some(users) = self.shared.get_mut(&sequence) else { return };
        *users -= 1;
        if *users == 0 {
            self.shared.remove(&sequence);
        }
    }
}
