//! What of a request is cached nowhere, and why: F0 − A by reason.
//!
//! The longest cached prefix anywhere ends at a block that some rank may have had. What is remembered of that block and
//! of those behind it tells whether it was evicted, left with its worker, or was never there.

use std::sync::Arc;

use kvroute_core::{
    BlockSize, Blocks, CachedTokens, HashedPrompts, PromptBlocks, RankSlot, RemovalCause, SequenceHash,
    SourceState, Tokens,
};
use kvroute_funnel::{AbsentLoss, HistoryLoss, HistoryTerms, MissingBlock, UnavailableLoss};
use kvroute_index::{Prefixes, Tombstones};

use crate::desk::Inquiry;
use crate::history::Known;
use crate::knowledge::Knowledge;
use crate::rank::Rank;

/// The blocks of one prompt behind its cached prefix, in the pool's smallest size.
#[derive(Debug)]
struct Rest<'a> {
    /// Which prompt of the request.
    prompt: usize,
    size: BlockSize,
    blocks: &'a PromptBlocks,
    /// Tokens of its cached prefix, on the rank that holds most of the request.
    prefix: Tokens,
}

/// Why the request's input beyond the longest cached prefix on any rank is not cached there; `None` where no index was
/// asked. Where a history was, what it knows of the request tells what was lost from what is new.
pub(crate) fn absent(
    knowledge: &Knowledge,
    inquiry: &Inquiry<'_>,
    known: Option<&Known>,
) -> Option<AbsentLoss> {
    let cached = inquiry.cached?;
    let anywhere = cached.iter().map(|tokens| tokens.total()).max().unwrap_or_default();
    let input: Tokens = inquiry.prompt_lengths.iter().copied().sum();
    let is_blind = is_any_source_blind(inquiry);
    let Some((size, prompts)) = inquiry.hashed.by_size().min_by_key(|(size, _)| size.get()) else {
        let unknown = UnavailableLoss::of(input - anywhere, Tokens::ZERO, [[]], is_blind);
        return Some(AbsentLoss::Unavailable(unknown));
    };
    let prefixes = prefixes(knowledge, inquiry, cached, anywhere);
    let rests = prompts.iter().zip(prefixes).enumerate();
    let rests = rests.map(|(prompt, (blocks, prefix))| Rest { prompt, size, blocks, prefix });
    let partial = prompts.iter().map(|prompt| prompt.tokens() - size.tokens(prompt.blocks())).sum();
    let Some(known) = known else {
        let missing = rests.map(|rest| rest.missing(knowledge, inquiry, rest.blocks.blocks()));
        return Some(AbsentLoss::Unavailable(UnavailableLoss::of(
            input - anywhere,
            partial,
            missing,
            is_blind,
        )));
    };
    let lost = rests.zip(&known.of_prompts).map(|(rest, history)| {
        let beyond = history.saturating_sub(rest.prefix);
        (beyond, rest.missing(knowledge, inquiry, size.complete_blocks(*history)))
    });
    let terms = HistoryTerms { input, history: known.total, anywhere, partial };
    Some(AbsentLoss::ByHistory(HistoryLoss::of(terms, lost, is_blind)))
}

/// How much of each prompt is cached on the first rank that holds most of all of them. Of a list every prompt is looked up
/// once more: the index told the sum.
fn prefixes(
    knowledge: &Knowledge,
    inquiry: &Inquiry<'_>,
    cached: &[CachedTokens],
    anywhere: Tokens,
) -> Vec<Tokens> {
    let holders = inquiry.ranks.iter().zip(cached);
    let holder = holders.into_iter().find(|(_, tokens)| tokens.total() == anywhere).map(|(rank, _)| rank);
    let (Some(holder), false) = (holder, anywhere.is_zero()) else {
        return vec![Tokens::ZERO; inquiry.prompt_lengths.len()];
    };
    prefixes_on(knowledge, holder, inquiry.hashed, anywhere)
}

/// How much of each prompt is cached on a rank that holds so much of all of them.
pub(crate) fn prefixes_on(
    knowledge: &Knowledge,
    rank: &Rank,
    hashed: &HashedPrompts,
    total: Tokens,
) -> Vec<Tokens> {
    match hashed.of_size(rank.block_size()) {
        [_] => vec![total],
        prompts => prompts.iter().map(|prompt| cached_on(knowledge, rank, prompt)).collect(),
    }
}

fn cached_on(knowledge: &Knowledge, rank: &Rank, prompt: &PromptBlocks) -> Tokens {
    let mut found = Prefixes::default();
    knowledge.index().cached_prefixes(prompt, &mut found);
    prompt.block_size().tokens(found.of(rank.slot).blocks())
}

/// Whether some rank does not tell all that it has; one without a source tells nothing.
fn is_any_source_blind(inquiry: &Inquiry<'_>) -> bool {
    let is_blind = |rank: &Rank| {
        let state = rank.source.as_ref().map_or(SourceState::Blind, |source| source.status().state);
        matches!(state, SourceState::Blind | SourceState::Degraded | SourceState::Suspect)
    };
    inquiry.ranks.iter().any(|rank| is_blind(rank))
}

// === impl Rest ===

impl Rest<'_> {
    /// Up to the end of so many blocks of the prompt.
    fn missing(&self, knowledge: &Knowledge, inquiry: &Inquiry<'_>, until: Blocks) -> Vec<MissingBlock> {
        let first = self.size.complete_blocks(self.prefix).get();
        let block = |number: u64| MissingBlock {
            tokens: self.start(number + 1) - self.begins(number),
            removed: None,
            is_held: false,
        };
        let mut missing: Vec<_> = (first..until.get()).map(block).collect();
        self.find_removals(knowledge, inquiry, first, &mut missing);
        let hole = (!missing.is_empty()).then(|| self.hole_before(knowledge, inquiry)).flatten();
        if hole.is_some() || missing.iter().any(|block| block.removed.is_some()) {
            self.find_held(knowledge, inquiry.hashed, first, &mut missing);
        }
        if let (Some(hole), Some(first)) = (hole, missing.first_mut().filter(|block| block.is_held)) {
            *first = MissingBlock { removed: Some(hole), is_held: false, ..*first };
        }
        missing
    }

    /// Ranks with larger blocks buried the block that covers this one.
    fn find_removals(
        &self,
        knowledge: &Knowledge,
        inquiry: &Inquiry<'_>,
        first: u64,
        missing: &mut [MissingBlock],
    ) {
        let hashed = inquiry.hashed;
        let tombstones = knowledge.tombstones();
        for (number, block) in (first..).zip(missing) {
            let covering = hashed.by_size().filter_map(|(size, prompts)| {
                let at = size.complete_blocks(self.begins(number)).get();
                prompts.get(self.prompt)?.hashes().get(at as usize)
            });
            block.removed = newest_cause(&tombstones, inquiry, covering.copied());
        }
    }

    /// Why the newest hole is one that lies in what the longest prefix covers: what its rank holds behind it is of no use,
    /// although none of the missing blocks is in its way.
    fn hole_before(&self, knowledge: &Knowledge, inquiry: &Inquiry<'_>) -> Option<RemovalCause> {
        if self.prefix.is_zero() {
            return None;
        }
        let mut holes: Vec<SequenceHash> = Vec::new();
        for (rank, end) in inquiry.ranks.iter().zip(self.ends(knowledge, inquiry)) {
            let at = rank.block_size().complete_blocks(end).get() as usize;
            let prompt = inquiry.hashed.of_size(rank.block_size()).get(self.prompt);
            let hole = prompt.and_then(|prompt| prompt.hashes().get(at));
            holes.extend(hole.filter(|hole| end < self.prefix && !holes.contains(hole)).copied());
        }
        newest_cause(&knowledge.tombstones(), inquiry, holes.into_iter())
    }

    /// Where the cached prefix of the prompt ends on each rank. Of a list every prompt is looked up once more.
    fn ends(&self, knowledge: &Knowledge, inquiry: &Inquiry<'_>) -> Vec<Tokens> {
        if let ([_], Some(cached)) = (inquiry.prompt_lengths, inquiry.cached) {
            return cached.iter().map(|tokens| tokens.total()).collect();
        }
        let end_on = |rank: &Arc<Rank>| {
            let prompt = inquiry.hashed.of_size(rank.block_size()).get(self.prompt);
            prompt.map_or(Tokens::ZERO, |prompt| cached_on(knowledge, rank, prompt))
        };
        inquiry.ranks.iter().map(end_on).collect()
    }

    fn find_held(
        &self,
        knowledge: &Knowledge,
        hashed: &HashedPrompts,
        first: u64,
        missing: &mut [MissingBlock],
    ) {
        let mut held = Vec::new();
        for (size, prompts) in hashed.by_size() {
            let Some(prompt) = prompts.get(self.prompt) else { continue };
            let covering = |number: u64| size.complete_blocks(self.begins(number)).get() as usize;
            knowledge.index().held_anywhere(prompt, covering(first), &mut held);
            for (number, block) in (first..).zip(&mut *missing) {
                block.is_held |= held.get(covering(number) - covering(first)).copied().unwrap_or(false);
            }
        }
    }

    /// Where what is missing of a block begins: behind the prefix, where that ends within the block.
    fn begins(&self, number: u64) -> Tokens {
        self.start(number).max(self.prefix)
    }

    /// Where a block begins.
    const fn start(&self, number: u64) -> Tokens {
        Tokens::new(self.size.get() as u64 * number)
    }
}

/// Why the block went that was removed last of these, from whichever rank could take the attempt, or from one that left.
fn newest_cause(
    tombstones: &Tombstones,
    inquiry: &Inquiry<'_>,
    blocks: impl Iterator<Item = SequenceHash>,
) -> Option<RemovalCause> {
    let is_there = |slot| inquiry.ranks.iter().any(|rank| rank.slot == slot);
    let counts = |slot: Option<RankSlot>| !inquiry.has_others || slot.is_none_or(is_there);
    let buried = blocks.filter_map(|block| tombstones.newest(block, counts));
    buried.max_by_key(|tombstone| tombstone.at).map(|tombstone| tombstone.cause)
}

#[cfg(test)]
mod tests;
