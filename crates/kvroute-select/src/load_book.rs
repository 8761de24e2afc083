//! Booked work of every rank: what the decision reads and what the gauges show.
//!
//! Booked at the decision, so that the next one already sees it, and by attempt: whatever ends an attempt
//! frees exactly what that attempt booked, once. A release that comes late cannot touch another attempt.

mod attempt;
mod rank_load;

use std::collections::HashMap;

use kvroute_core::{AttemptId, BlockSize, RankSlot, SequenceHash, Tokens, WorkerLoad};

use attempt::BookedAttempt;
use rank_load::RankLoad;

/// The work that one attempt brings.
#[derive(Clone, Copy, Debug)]
pub struct Booking<'a> {
    /// Input tokens that must be computed: input less cached prefix.
    pub prefill: Tokens,
    /// Block size of the rank.
    pub block_size: BlockSize,
    /// The attempt's prompts: one for a chat, several for a prompt list.
    pub prompts: &'a [BookedPrompt<'a>],
    /// Choices generated for each prompt (`n`).
    pub choices: u32,
}

/// One prompt of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct BookedPrompt<'a> {
    /// Its length; a byte estimate where it was not tokenized.
    pub tokens: Tokens,
    /// Its complete blocks by the rank's block size, which attempts with the same prefix share. Empty where
    /// the prompt was not hashed: then all of its blocks are its own.
    pub hashes: &'a [SequenceHash],
}

/// Load of all ranks of a pool, by attempt.
#[derive(Debug, Default)]
pub struct LoadBook {
    ranks: Vec<RankLoad>,
    attempts: HashMap<AttemptId, BookedAttempt>,
}

// === impl LoadBook ===

impl LoadBook {
    /// A book without any load.
    pub fn new() -> Self {
        Self::default()
    }

    /// Books an attempt on a rank. An attempt that is booked already is released first.
    pub fn book(&mut self, id: AttemptId, slot: RankSlot, booking: &Booking<'_>) {
        self.release(id);
        if slot.index() >= self.ranks.len() {
            self.ranks.resize_with(slot.index() + 1, RankLoad::default);
        }
        let attempt = BookedAttempt::new(slot, booking);
        self.ranks[slot.index()].add(&attempt);
        self.attempts.insert(id, attempt);
    }

    /// The attempt's prefill is done: its first non-empty token arrived. Later calls change nothing.
    pub fn first_token(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        self.ranks[attempt.slot().index()].finish_prefill(attempt.finish_prefill());
    }

    /// A choice of the attempt grew by so many tokens. Choices of a prompt list are numbered through:
    /// prompt × choices + choice.
    pub fn output(&mut self, id: AttemptId, choice: u32, tokens: Tokens) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        self.ranks[attempt.slot().index()].grow(attempt.grow(choice, tokens));
    }

    /// Frees everything the attempt booked. Unknown attempts change nothing, so a late release is harmless.
    pub fn release(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        self.ranks[attempt.slot().index()].remove(&attempt);
    }

    /// Load of a rank; zero for one that was never booked.
    pub fn load(&self, slot: RankSlot) -> WorkerLoad {
        self.ranks.get(slot.index()).map(RankLoad::load).unwrap_or_default()
    }

    /// Forgets a rank with its attempts. Their later releases are harmless, also when the slot is in use again.
    pub fn remove_slot(&mut self, slot: RankSlot) {
        self.attempts.retain(|_, attempt| attempt.slot() != slot);
        if let Some(rank) = self.ranks.get_mut(slot.index()) {
            *rank = RankLoad::default();
        }
    }
}

#[cfg(test)]
mod tests;
