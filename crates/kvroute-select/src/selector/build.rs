//! From a question to the candidates and the shape of the request that policies look at.

use kvroute_core::{BlockSize, CachedTokens, Tokens};

use super::{Question, RankView, Selector};
use crate::{Candidate, LoadBook, RecentView, RequestShape};

// === impl Selector ===

impl Selector {
    /// Fills the candidates, none of them narrowed by a policy yet.
    pub(super) fn consider(&mut self, question: &Question<'_>) -> RequestShape {
        self.book.settle(question.now);
        let asks_index =
            self.live.uses_index() || self.shadows.iter().any(|shadow| shadow.policy.uses_index());
        let Self { book, candidates, .. } = self;
        let recent = book.recent(question.now);
        let ranks = question.ranks.iter().enumerate();
        candidates.clear();
        candidates.extend(ranks.map(|(position, rank)| {
            let work = Work { load: book, recent: &recent };
            work.candidate(question, position, rank, asks_index)
        }));
        RequestShape {
            input: question.input(),
            unit: question.unit(),
            weights: question.weights,
            affinity: question.affinity,
            fair_recent: fair_recent(&self.candidates),
            is_pinned: question.is_pinned,
            now: question.now,
        }
    }
}

/// What is booked, and what was given lately.
#[derive(Clone, Copy)]
struct Work<'a> {
    load: &'a LoadBook,
    recent: &'a RecentView<'a>,
}

// === impl Work ===

impl Work<'_> {
    fn candidate(
        self,
        question: &Question<'_>,
        position: usize,
        rank: &RankView,
        asks_index: bool,
    ) -> Candidate {
        let credit = asks_index && rank.has_credit;
        let cached = if credit { question.cached_on(position) } else { CachedTokens::NONE };
        let expected = match asks_index {
            true => expected_behind(self.load, cached.total(), question, rank),
            false => Tokens::ZERO,
        };
        let mut load = self.load.load(rank.slot);
        load.decode_blocks = load.decode_blocks.max(rank.foreign.blocks);
        load.active_requests = load.active_requests.max(rank.foreign.requests);
        let context = self.load.context(rank.slot).max(rank.block_size.tokens(rank.foreign.blocks));
        Candidate {
            slot: rank.slot,
            key: rank.key,
            block_size: rank.block_size,
            cached,
            expected,
            load,
            context,
            recent: self.recent.of(rank.slot),
            excluded: rank.excluded,
        }
    }
}

/// Tokens behind the cached ones that an unfinished prompt is about to leave on the rank. Prompt lists are not
/// looked at: their cached prefix is known as a sum only.
fn expected_behind(book: &LoadBook, cached: Tokens, question: &Question<'_>, rank: &RankView) -> Tokens {
    let size = rank.block_size;
    let [prompt] = question.hashed.of_size(size) else { return Tokens::ZERO };
    size.tokens(book.expected_after(rank.slot, prompt.hashes(), size.complete_blocks(cached)))
}

fn fair_recent(candidates: &[Candidate]) -> Tokens {
    let eligible = || candidates.iter().filter(|candidate| candidate.is_eligible());
    let total: Tokens = eligible().map(|candidate| candidate.recent).sum();
    Tokens::new(total.get() / (eligible().count() as u64).max(1))
}

// === impl Question ===

impl Question<'_> {
    pub(super) fn input(&self) -> Tokens {
        self.prompt_lengths.iter().copied().sum()
    }

    /// The unit of cost: the smallest block size among the ranks.
    fn unit(&self) -> BlockSize {
        self.ranks.iter().map(|rank| rank.block_size).min().unwrap_or(BlockSize::DEFAULT)
    }

    pub(super) fn cached_on(&self, position: usize) -> CachedTokens {
        self.cached.and_then(|cached| cached.get(position)).copied().unwrap_or(CachedTokens::NONE)
    }
}
