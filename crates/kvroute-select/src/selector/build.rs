//! From a question to the candidates and the shape of the request that policies look at.

use kvroute_core::{BlockSize, Blocks, CachedTokens, Tokens};

use super::{Question, RankView, Selector};
use crate::{Candidate, LoadBook, RecentView, RequestShape};

// === impl Selector ===

impl Selector {
    /// Fills the candidates, none of them narrowed by a policy yet.
    pub(super) fn consider(&mut self, question: &Question<'_>) -> RequestShape {
        self.book.settle(question.now);
        let asks_index =
            self.live.uses_index() || self.shadows.iter().any(|shadow| shadow.policy.uses_index());
        let Self { book, candidates, expected, .. } = self;
        expected.clear();
        for (_, prompts) in question.hashed.by_size().filter(|_| asks_index) {
            if let [prompt] = prompts {
                book.expected(prompt.hashes(), expected);
            }
        }
        let recent = book.recent(question.now);
        self.has_newcomers = has_newcomers(book, question.ranks);
        let usual_recent = self.has_newcomers.then(|| usual_recent(book, &recent, question.ranks)).flatten();
        let ranks = question.ranks.iter().enumerate();
        candidates.clear();
        candidates.extend(ranks.map(|(position, rank)| {
            let work = Work { load: book, recent: &recent, usual_recent, expected };
            work.candidate(question, position, rank, asks_index)
        }));
        let request = RequestShape {
            input: question.input(),
            unit: question.unit(),
            weights: question.weights,
            affinity: question.affinity,
            fair_recent: fair_recent(&self.candidates),
            is_pinned: question.is_pinned,
            now: question.now,
        };
        self.asked = Some(request);
        request
    }
}

/// What is booked, and what was given lately.
#[derive(Clone, Copy)]
struct Work<'a> {
    load: &'a LoadBook,
    recent: &'a RecentView<'a>,
    usual_recent: Option<Tokens>,
    expected: &'a [u32],
}

// === impl Work ===

impl Work<'_> {
    fn recent_of(&self, rank: &RankView) -> Tokens {
        let recent = self.recent.of(rank.slot);
        match self.usual_recent {
            Some(usual) if !self.load.is_known(rank.slot) => recent.max(usual),
            _ => recent,
        }
    }

    #[inline]
    fn candidate(
        self,
        question: &Question<'_>,
        position: usize,
        rank: &RankView,
        asks_index: bool,
    ) -> Candidate {
        let credit = asks_index && rank.has_credit;
        let cached = if credit { question.cached_on(position) } else { CachedTokens::NONE };
        let expected = self.expected.get(rank.slot.index()).map_or(Tokens::ZERO, |&blocks| {
            let size = rank.block_size;
            size.tokens(Blocks::new(blocks.into()).saturating_sub(size.complete_blocks(cached.total())))
        });
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
            recent: self.recent_of(rank),
            excluded: rank.excluded,
        }
    }
}

/// Whether a rank is to be chosen from for the first time: hardly ever, so that nothing else of it costs each decision.
fn has_newcomers(book: &LoadBook, ranks: &[RankView]) -> bool {
    ranks.iter().any(|rank| rank.excluded.is_none() && !book.is_known(rank.slot))
}

/// What a rank that nobody has seen yet is taken to have been given lately: as much as the others, on the average.
/// Taken to have been given nothing, it would lower everybody's share, and the caches of the warm ranks would count for
/// nothing until it has caught up. `None` where there is none but such.
fn usual_recent(book: &LoadBook, recent: &RecentView<'_>, ranks: &[RankView]) -> Option<Tokens> {
    let eligible = || ranks.iter().filter(|rank| rank.excluded.is_none());
    let known = || eligible().filter(|rank| book.is_known(rank.slot));
    let total: Tokens = known().map(|rank| recent.of(rank.slot)).sum();
    total.get().checked_div(known().count() as u64).map(Tokens::new)
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
