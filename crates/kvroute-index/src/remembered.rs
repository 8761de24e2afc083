//! What the router remembers of a rank whose engine publishes no events.
//!
//! The index answers lookups; this keeps only what it cannot know of such a rank: in which order its blocks were used,
//! which of them running attempts use, and how much the engine seems to hold.
//!
//! * **When.** A prompt is remembered once it is computed: with its first output, or its report. Until then it is in no
//!   cache, and what waits for it counts as expected in the load book. A dispatch that failed never came so
//!   far: it leaves nothing behind, and what it found keeps its age.
//! * **How long.** Where the capacity of the engine's cache is known, the least recently used blocks leave once it is
//!   full. Time alone empties no such cache: an engine that was idle over night still has what it had in the
//!   evening, so the time to live does not apply there. Where no capacity is known, there is time: a block
//!   is forgotten when nobody used it for the time to live, counted from the end of its last use, and such an engine is
//!   not taken to hold more than [`RememberedRank::MAX_UNDECLARED`]. Blocks in use stay in
//!   both cases, as they do in the engine.
//! * **What fills it.** Partial blocks and output are in the engine's way, but cannot be found again by their identity
//!   here: they count against the capacity while their attempt runs, and are not remembered.
//! * **Correction.** An engine that reused less than was predicted no longer had the rest. Its own prompt it has just
//!   computed again. What hangs behind the lost blocks in other prompts can't be there any more, since a cache gives up
//!   a block only after those behind it; it is forgotten, unless somebody used it since the attempt was placed. And the
//!   engine holds less than was believed: see the learned capacity. Two losses say nothing of the kind. Engines compute
//!   at least the last token of a prompt, so a prompt that ends on a block boundary gives up its last block without
//!   having lost it. And what another attempt was using at that moment was certainly there: the engine only did not
//!   share it, as one does that gives every slot a cache of its own.
//!
//! The index may push a block out for its own budget. It stays remembered here, since the engine still has it and it
//! takes the engine's room, and is held again when a prompt brings it the next time. So the index alone says what is
//! credited. A block costs 48 bytes and a table entry here, 54 to 60 bytes together; a rank never remembers more than
//! [`RememberedRank::MAX_BLOCKS`], besides the prompts that run.

mod blocks;
mod capacity;
mod running;

use std::collections::HashMap;
use std::time::Duration;

use kvroute_core::{AttemptId, BlockSize, Blocks, PromptBlocks, RankSlot, Removal, SequenceHash, Tokens};

use crate::ReportedIndex;
use blocks::RememberedBlocks;
use capacity::LearnedCapacity;
use running::{Chain, Running};

/// What lets a remembered block go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RememberPolicy {
    /// Nobody used it for so long: where no capacity is known.
    Ttl(Duration),
    /// The engine's cache is full and others were used since.
    Lru,
}

/// What happened so far; numbers that only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RememberedCounts {
    /// Blocks let go to make room.
    pub evicted: u64,
    /// Prompts that are remembered by time because no capacity is known.
    pub fallbacks: u64,
    /// Times that the output of an attempt took further blocks.
    pub output_batches: u64,
    /// Prompts that could not be remembered: cut by another block size than the rank's.
    pub rejected: u64,
}

/// What one attempt's report says about a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedReuse {
    /// Tokens that the index promised at selection.
    pub predicted: Tokens,
    /// Tokens that the engine reused.
    pub reused: Tokens,
}

/// What a report changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Correction {
    /// Predicted tokens that were not there, beyond what a last block costs.
    pub lost: Tokens,
    /// Blocks of other prompts that were forgotten with them.
    pub dropped: Blocks,
}

/// What the router placed on one rank without events: bookkeeping over [`ReportedIndex::hold`] and
/// [`ReportedIndex::release`].
#[derive(Clone, Debug)]
pub struct RememberedRank {
    slot: RankSlot,
    block_size: BlockSize,
    policy: RememberPolicy,
    capacity: LearnedCapacity,
    blocks: RememberedBlocks,
    attempts: HashMap<AttemptId, Running>,
    /// Room that running attempts take besides remembered blocks.
    private: u64,
    counts: RememberedCounts,
}

// === impl RememberedRank ===

impl RememberedRank {
    /// The most blocks that a rank remembers, whatever capacity it claims: 8 million tokens at 16 a block, in 31 MB.
    pub const MAX_BLOCKS: u64 = 1 << 19;

    /// The most blocks of a rank whose capacity is not known: 4 million tokens at 16 a block. To compute as much within the
    /// usual time to live it would have to take 35,000 new tokens a second.
    pub const MAX_UNDECLARED: u64 = 1 << 18;

    /// Nothing is remembered yet. A capacity of `None` means that it is not known: then `ttl` applies.
    pub fn new(slot: RankSlot, block_size: BlockSize, ttl: Duration, capacity: Option<Blocks>) -> Self {
        let policy = if capacity.is_some() { RememberPolicy::Lru } else { RememberPolicy::Ttl(ttl) };
        let ceiling = capacity.map_or(Self::MAX_UNDECLARED, Blocks::get).min(Self::MAX_BLOCKS);
        Self {
            slot,
            block_size,
            policy,
            capacity: LearnedCapacity::new(ceiling),
            blocks: RememberedBlocks::default(),
            attempts: HashMap::new(),
            private: 0,
            counts: RememberedCounts::default(),
        }
    }

    /// What lets blocks go here.
    pub const fn policy(&self) -> RememberPolicy {
        self.policy
    }

    /// Blocks that the engine is believed to hold at most: its capacity, or less by what reports taught.
    pub const fn capacity(&self) -> Blocks {
        self.capacity.limit()
    }

    /// Blocks that are remembered.
    pub fn blocks(&self) -> Blocks {
        self.blocks.len()
    }

    /// What happened so far.
    pub const fn counts(&self) -> RememberedCounts {
        self.counts
    }

    /// The worker took a prompt of an attempt: an attempt with a prompt list brings several. What is known of it is
    /// pinned, and room is made for it. It is remembered once it is computed.
    pub fn placed(
        &mut self,
        index: &ReportedIndex,
        attempt: AttemptId,
        prompt: &PromptBlocks,
        now: Duration,
        gone: &mut impl FnMut(Removal),
    ) {
        if prompt.block_size() != self.block_size {
            self.counts.rejected += 1;
            return;
        }
        self.counts.fallbacks += u64::from(self.policy != RememberPolicy::Lru);
        let chain = Chain::pin(prompt, &mut self.blocks);
        let running = self.attempts.entry(attempt).or_insert_with(|| Running::new(now));
        self.private += running.add(chain, prompt);
        self.make_room(index, gone);
    }

    /// The output of an attempt fills so many blocks by now, all choices together. The first output tells that its
    /// prompts are computed: from now on they are remembered.
    pub fn grew(
        &mut self,
        index: &ReportedIndex,
        attempt: AttemptId,
        output: Blocks,
        now: Duration,
        gone: &mut impl FnMut(Removal),
    ) {
        self.compute(index, attempt, now, gone);
        let Some(running) = self.attempts.get_mut(&attempt) else { return };
        let taken = running.grow(output);
        if taken > 0 {
            self.private += taken;
            self.counts.output_batches += 1;
            self.make_room(index, gone);
        }
    }

    /// The attempt is over, however it ended. What it computed stays remembered, as used last by now; if it computed
    /// nothing, it leaves no trace. Later calls change nothing. Room that is due is made by the next call that has the
    /// index.
    pub fn finished(&mut self, attempt: AttemptId, now: Duration) {
        let Some(running) = self.attempts.remove(&attempt) else { return };
        if self.attempts.is_empty() {
            self.attempts = HashMap::new();
        }
        self.private -= running.private();
        running.release(&mut self.blocks, now);
    }

    /// The engine said what it reused of a running attempt's prompt. With several prompts nothing follows, because the
    /// numbers are sums.
    pub fn reported(
        &mut self,
        index: &ReportedIndex,
        attempt: AttemptId,
        reuse: ReportedReuse,
        now: Duration,
        gone: &mut impl FnMut(Removal),
    ) -> Correction {
        self.compute(index, attempt, now, gone);
        let Some((chain, placed)) = self.attempts.get(&attempt).and_then(Running::only_chain) else {
            return Correction::default();
        };
        let size = self.block_size;
        let due = reuse.predicted.min(size.reusable_tokens(chain.tokens()));
        let kept = size.complete_blocks(reuse.reused);
        if reuse.reused >= due {
            let beyond = size.complete_blocks(reuse.reused.saturating_sub(reuse.predicted));
            self.capacity.confirmed(size.complete_blocks(due), beyond);
            return Correction::default();
        }
        let lost = due - reuse.reused;
        if chain.was_in_use(kept) {
            return Correction { lost, dropped: Blocks::ZERO };
        }
        let missing = size.complete_blocks(due).saturating_sub(kept);
        self.capacity.lost(self.used(), missing, chain.last_use(), now);
        let dropped = match chain.node(kept) {
            Some(first_lost) => self.blocks.remove_behind(first_lost, placed),
            None => Vec::new(),
        };
        release(index, self.slot, &dropped, gone);
        self.make_room(index, gone);
        Correction { lost, dropped: Blocks::from(dropped.len()) }
    }

    /// Forgets what nobody used in time, where time counts, and makes the room that finished attempts left due. Called
    /// about once a second.
    pub fn expire(&mut self, index: &ReportedIndex, now: Duration, gone: &mut impl FnMut(Removal)) {
        if let RememberPolicy::Ttl(ttl) = self.policy {
            let is_over = |last_use: Duration| last_use.saturating_add(ttl) <= now;
            let expired: Vec<_> = std::iter::from_fn(|| self.blocks.pop_oldest(is_over)).collect();
            release(index, self.slot, &expired, gone);
        }
        self.make_room(index, gone);
    }

    fn used(&self) -> u64 {
        self.blocks.len().get() + self.private
    }

    /// The attempt's prompts are computed: they are remembered, and in use until the attempt is over.
    fn compute(
        &mut self,
        index: &ReportedIndex,
        attempt: AttemptId,
        now: Duration,
        gone: &mut impl FnMut(Removal),
    ) {
        let running = self.attempts.get_mut(&attempt).filter(|running| !running.is_computed());
        let Some(running) = running else { return };
        let before = running.private();
        let mut evicted = Vec::new();
        for chain in running.chains_to_compute() {
            let hashes = chain.compute(&mut self.blocks, now, &mut evicted);
            self.counts.evicted += evicted.len() as u64;
            release(index, self.slot, &evicted, gone);
            evicted.clear();
            self.counts.rejected += index.hold(self.slot, self.block_size, &hashes, gone).rejected;
        }
        self.private = self.private + running.private() - before;
    }

    /// Lets the least recently used blocks go until what is left fits.
    fn make_room(&mut self, index: &ReportedIndex, gone: &mut impl FnMut(Removal)) {
        let mut evicted = Vec::new();
        while self.used() > self.capacity.limit().get() {
            let Some(oldest) = self.blocks.pop_oldest(|_| true) else { break };
            evicted.push(oldest);
        }
        self.counts.evicted += evicted.len() as u64;
        release(index, self.slot, &evicted, gone);
    }
}

fn release(index: &ReportedIndex, slot: RankSlot, hashes: &[SequenceHash], gone: &mut impl FnMut(Removal)) {
    if !hashes.is_empty() {
        let _what_the_budget_took_before = index.release(slot, hashes, gone);
    }
}

#[cfg(test)]
mod tests;
