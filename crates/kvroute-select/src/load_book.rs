//! Booked work of every rank: what the decision reads and what the gauges show.
//!
//! Booked at the decision, so that the next one already sees it, and by attempt: whatever ends an attempt
//! frees exactly what that attempt booked, once. A release that comes late cannot touch another attempt.
//!
//! The blocks of prompts that are not computed yet are *expected*: between its placement and its first token a prompt
//! is in no cache, and an index that knows caches alone would send every equal prompt of a burst to another rank, each
//! to compute the same.
//!
//! A whole answer shows no first token. Its prompt counts as computed after the time that it should take at the speed
//! that the rank's streams showed, one prompt after the other: left booked to the end of the answer, it would make an
//! idle rank look busy for as long as the answer is generated.

mod attempt;
mod pace;
mod prompt_tree;
mod rank_load;
mod recent;
mod unseen;

use std::collections::HashMap;
use std::time::Duration;

use kvroute_core::{AttemptId, BlockSize, RankSlot, SequenceHash, Tokens, TokensPerSecond, WorkerLoad};

use crate::Candidate;
use attempt::BookedAttempt;
use prompt_tree::PromptTree;
use rank_load::RankLoad;
use recent::{Faded, Fading};

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
    /// Whether [`LoadBook::first_token`] will tell when the prefill is done: true for streams.
    pub shows_first_token: bool,
    /// When it is placed, by the clock that all calls share.
    pub now: Duration,
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
    prompts: PromptTree,
    fading: Fading,
}

/// What the ranks were given lately, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct RecentView<'a> {
    ranks: &'a [RankLoad],
    faded: Faded,
}

// === impl LoadBook ===

impl LoadBook {
    /// A book without any load.
    pub fn new() -> Self {
        Self::default()
    }

    /// Books an attempt on a rank. An attempt that is booked already is released first.
    pub fn book(&mut self, id: AttemptId, slot: RankSlot, booking: &Booking<'_>) {
        self.release(id, booking.now);
        let (attempt, new) = BookedAttempt::new(slot, booking, &mut self.prompts);
        let faded = self.fading.at(booking.now);
        self.rank_mut(slot).add(id, &attempt, new, booking.now, faded);
        self.attempts.insert(id, attempt);
    }

    /// The attempt's prefill is done: its first non-empty token arrived. Later calls change nothing.
    pub fn first_token(&mut self, id: AttemptId, now: Duration) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        self.ranks[attempt.slot().index()].saw_first_token(attempt, &mut self.prompts, now);
    }

    /// A choice of the attempt grew by so many tokens. Choices of a prompt list are numbered through:
    /// prompt × choices + choice.
    pub fn output(&mut self, id: AttemptId, choice: u32, tokens: Tokens, now: Duration) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let grown = attempt.grow(choice, tokens);
        self.ranks[attempt.slot().index()].grow(grown, tokens, self.fading.at(now));
    }

    /// Frees everything the attempt booked. Unknown attempts change nothing, so a late release is harmless.
    pub fn release(&mut self, id: AttemptId, now: Duration) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        let gone = attempt.leave(&mut self.prompts);
        let rank = &mut self.ranks[attempt.slot().index()];
        if attempt.is_unfinished() {
            rank.left_undone(&attempt, self.fading.at(attempt.booked_at()), now);
        }
        rank.remove(id, &attempt, gone, now);
    }

    /// Ends every prefill that nobody sees the end of and that should be done by now.
    pub fn settle(&mut self, now: Duration) {
        if let Some(faded) = self.fading.renew(now) {
            self.ranks.iter_mut().for_each(|rank| rank.renew_recent(faded));
        }
        for rank in &mut self.ranks {
            while let Some(id) = rank.next_due(now) {
                if let Some(attempt) = self.attempts.get_mut(&id) {
                    rank.finish_prefill(attempt, &mut self.prompts);
                }
            }
        }
    }

    /// Load of a rank; zero for one that was never booked.
    pub fn load(&self, slot: RankSlot) -> WorkerLoad {
        self.ranks.get(slot.index()).map(RankLoad::load).unwrap_or_default()
    }

    /// Tokens of context that the active sequences of a rank read at every step: each its own, shared or not.
    pub fn context(&self, slot: RankSlot) -> Tokens {
        self.ranks.get(slot.index()).map(RankLoad::context).unwrap_or_default()
    }

    /// What the ranks were given to compute lately, fading with time.
    pub fn recent(&self, now: Duration) -> RecentView<'_> {
        RecentView { ranks: &self.ranks, faded: self.fading.at(now) }
    }

    /// Whether a decision has chosen from the rank before.
    pub fn is_known(&self, slot: RankSlot) -> bool {
        self.ranks.get(slot.index()).is_some_and(RankLoad::is_known)
    }

    /// Decisions choose from these ranks from now on: those that are eligible for the first time are taken to have been
    /// given lately what their candidate says.
    pub fn welcome(&mut self, candidates: &[Candidate], now: Duration) {
        let faded = self.fading.at(now);
        for candidate in candidates.iter().filter(|candidate| candidate.is_eligible()) {
            self.rank_mut(candidate.slot).welcome(candidate.recent, faded);
        }
    }

    /// Prompt tokens that the rank computes a second, as its streams showed; `None` before they showed enough.
    pub fn prefill_speed(&self, slot: RankSlot) -> Option<TokensPerSecond> {
        self.ranks.get(slot.index())?.prefill_speed()
    }

    /// How long the rank should take for what is booked and not computed.
    pub fn backlog_time(&self, slot: RankSlot) -> Duration {
        self.ranks.get(slot.index()).map(RankLoad::backlog_time).unwrap_or_default()
    }

    /// When there should be room for one more: once the first of the ranks that it may use has worked off what is booked
    /// on it, and all ranks that there are, together, what waits in line. Zero without a rank.
    pub fn time_to_room(
        &self,
        usable: impl Iterator<Item = RankSlot>,
        all: impl Iterator<Item = RankSlot>,
        in_line: Tokens,
    ) -> Duration {
        let unseen = RankLoad::default();
        let alone = |slot: RankSlot| self.ranks.get(slot.index()).unwrap_or(&unseen).time_of(in_line);
        let lines_a_second: f64 = all.map(|slot| alone(slot).as_secs_f64().recip()).sum();
        let line = Duration::try_from_secs_f64(lines_a_second.recip()).unwrap_or_default();
        usable.map(|slot| self.backlog_time(slot)).min().unwrap_or_default() + line
    }

    /// Leading blocks of a prompt that unfinished prompts on each rank are about to bring, by slot; slots behind the
    /// last one that something is expected on are left out, and what is there already is kept.
    pub fn expected(&self, hashes: &[SequenceHash], by_slot: &mut Vec<u32>) {
        self.prompts.expected(hashes, |slot, blocks| {
            if slot.index() >= by_slot.len() {
                by_slot.resize(slot.index() + 1, 0);
            }
            by_slot[slot.index()] = blocks as u32;
        });
    }

    /// Forgets a rank with its attempts. Their later releases are harmless, also when the slot is in use again.
    pub fn remove_slot(&mut self, slot: RankSlot) {
        let prompts = &mut self.prompts;
        self.attempts.retain(|_, attempt| {
            let stays = attempt.slot() != slot;
            if !stays {
                attempt.leave(prompts);
            }
            stays
        });
        if let Some(rank) = self.ranks.get_mut(slot.index()) {
            *rank = RankLoad::default();
        }
    }

    fn rank_mut(&mut self, slot: RankSlot) -> &mut RankLoad {
        if slot.index() >= self.ranks.len() {
            self.ranks.resize_with(slot.index() + 1, RankLoad::default);
        }
        &mut self.ranks[slot.index()]
    }
}

// === impl RecentView ===

impl RecentView<'_> {
    /// Of one rank; zero below one token.
    pub fn of(&self, slot: RankSlot) -> Tokens {
        self.ranks.get(slot.index()).map(|rank| rank.recent(self.faded)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
