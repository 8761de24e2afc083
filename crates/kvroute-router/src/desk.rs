//! Where decisions are taken and booked, in one step.
//!
//! A decision that is not booked before the next one starts sends a burst to one worker. So the policy, its
//! random numbers and the load book share one lock, held for a few microseconds and never across an await.

use std::sync::Arc;

use kvroute_core::{AttemptId, BlockSize, Tokens};
use kvroute_funnel::CachedStages;
use kvroute_index::ExpectedBlocks;
use kvroute_metrics::SelectionOverlap;
use kvroute_select::{
    BookedPrompt, Booking, CachedTokens, Candidate, Cost, CostWeights, Exclusion, LoadBook, NoCandidate,
    PickReason, Policy, RequestShape,
};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::cached_view::HashedPrompts;
use crate::rank::Rank;

/// The policy and the load of one pool.
#[derive(Debug)]
pub(crate) struct Desk {
    state: Mutex<DeskState>,
    weights: CostWeights,
}

#[derive(Debug)]
struct DeskState {
    policy: Box<dyn Policy>,
    book: LoadBook,
    expected: ExpectedBlocks,
    random: ChaCha8Rng,
    next_attempt: u64,
    candidates: Vec<Candidate>,
    costs: Vec<Option<Cost>>,
}

/// One attempt to be placed.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// The pool's ranks of this moment.
    pub(crate) ranks: &'a [Arc<Rank>],
    /// Cached prefix on each rank; `None` where no index was asked.
    pub(crate) cached: Option<&'a [CachedTokens]>,
    /// The prompts as hashed; empty where they were not.
    pub(crate) hashed: &'a HashedPrompts,
    /// Length of each prompt; an estimate where they were not tokenized.
    pub(crate) prompt_lengths: &'a [Tokens],
    /// Answers a prompt.
    pub(crate) choices: u32,
}

/// A decision that is booked.
#[derive(Debug)]
pub(crate) struct Placement {
    /// Fences the booking.
    pub(crate) attempt: AttemptId,
    /// The rank.
    pub(crate) rank: Arc<Rank>,
    /// A, F2 and F3; `None` where no index was asked.
    pub(crate) stages: Option<CachedStages>,
    /// What the decision saw and took, weighted by tier; `None` where no index was asked.
    pub(crate) overlap: Option<SelectionOverlap>,
    /// Why this rank.
    pub(crate) reason: PickReason,
}

// === impl Desk ===

impl Desk {
    /// A desk without load.
    pub(crate) fn new(policy: Box<dyn Policy>, weights: CostWeights, seed: u64) -> Self {
        let state = DeskState {
            policy,
            book: LoadBook::new(),
            expected: ExpectedBlocks::default(),
            random: ChaCha8Rng::seed_from_u64(seed),
            next_attempt: 1,
            candidates: Vec::new(),
            costs: Vec::new(),
        };
        Self { state: Mutex::new(state), weights }
    }

    /// Picks a rank and books the attempt on it.
    pub(crate) fn place(&self, question: &Question<'_>) -> Result<Placement, NoCandidate> {
        let request = RequestShape { input: question.input(), unit: question.unit(), weights: self.weights };
        let mut desk = self.state.lock();
        let (position, reason) = desk.decide(question, &request)?;
        let rank = Arc::clone(&question.ranks[position]);
        let attempt = desk.take_attempt_id();
        desk.book(attempt, &rank, question, position);
        let stages = desk.stages(question, position);
        let overlap = desk.overlap(question, &request, position);
        Ok(Placement { attempt, rank, stages, overlap, reason })
    }

    /// The attempt's first token arrived: its prefill is done.
    pub(crate) fn first_token(&self, attempt: AttemptId, rank: &Rank) {
        self.update(rank, |desk| {
            desk.expected.done(attempt);
            desk.book.first_token(attempt);
        });
    }

    /// A choice of the attempt grew.
    pub(crate) fn output(&self, attempt: AttemptId, rank: &Rank, choice: u32, tokens: Tokens) {
        self.update(rank, |desk| desk.book.output(attempt, choice, tokens));
    }

    /// The attempt is over.
    pub(crate) fn release(&self, attempt: AttemptId, rank: &Rank) {
        self.update(rank, |desk| {
            desk.expected.done(attempt);
            desk.book.release(attempt);
        });
    }

    /// The rank left the pool.
    pub(crate) fn forget(&self, rank: &Rank) {
        let mut desk = self.state.lock();
        desk.book.remove_slot(rank.slot);
        desk.expected.remove_slot(rank.slot);
    }

    fn update(&self, rank: &Rank, change: impl FnOnce(&mut DeskState)) {
        let mut desk = self.state.lock();
        change(&mut desk);
        rank.metrics.set_load(&desk.book.load(rank.slot));
    }
}

// === impl DeskState ===

impl DeskState {
    fn decide(
        &mut self,
        question: &Question<'_>,
        request: &RequestShape,
    ) -> Result<(usize, PickReason), NoCandidate> {
        self.candidates.clear();
        for (position, rank) in question.ranks.iter().enumerate() {
            let load = self.book.load(rank.slot);
            let credit = self.policy.uses_index() && rank.has_credit();
            let cached = if credit { question.cached_on(position) } else { CachedTokens::NONE };
            self.candidates.push(Candidate {
                slot: rank.slot,
                block_size: rank.block_size(),
                cached,
                expected: self.expected_behind(cached.total(), question, rank),
                load,
                excluded: exclusion(rank),
            });
        }
        let pick = self.policy.pick(request, &self.candidates, &mut self.costs, &mut self.random)?;
        self.policy.placed(self.candidates[pick.candidate].slot);
        Ok((pick.candidate, pick.reason))
    }

    /// Tokens behind the cached ones that an unfinished prompt is about to leave on the rank. Prompt lists are not
    /// looked at: their cached prefix is known as a sum only.
    fn expected_behind(&self, cached: Tokens, question: &Question<'_>, rank: &Rank) -> Tokens {
        let size = rank.block_size();
        let [prompt] = question.hashed.of_size(size) else { return Tokens::ZERO };
        if !self.policy.uses_index() || self.expected.is_idle(rank.slot) {
            return Tokens::ZERO;
        }
        let cached = size.complete_blocks(cached);
        size.tokens(self.expected.prefix_after(rank.slot, prompt.hashes(), cached))
    }

    fn take_attempt_id(&mut self) -> AttemptId {
        let id = AttemptId::new(self.next_attempt);
        self.next_attempt += 1;
        id
    }

    fn book(&mut self, attempt: AttemptId, rank: &Rank, question: &Question<'_>, position: usize) {
        let block_size = rank.block_size();
        let hashed = question.hashed.of_size(block_size);
        let hashes_of = |prompt: usize| hashed.get(prompt).map_or(&[][..], |blocks| blocks.hashes());
        let prompts: Vec<_> = question
            .prompt_lengths
            .iter()
            .enumerate()
            .map(|(prompt, &tokens)| BookedPrompt { tokens, hashes: hashes_of(prompt) })
            .collect();
        let candidate = &self.candidates[position];
        let credited = candidate.cached.total() + candidate.expected;
        let known = question.cached_on(position).total().max(credited);
        let prefill = question.input().saturating_sub(known);
        for prompt in hashed {
            self.expected.place(attempt, rank.slot, prompt.hashes());
        }
        let booking = Booking { prefill, block_size, prompts: &prompts, choices: question.choices };
        self.book.book(attempt, rank.slot, &booking);
        rank.metrics.set_load(&self.book.load(rank.slot));
    }

    fn stages(&self, question: &Question<'_>, position: usize) -> Option<CachedStages> {
        let cached = question.cached?;
        let longest = |lengths: &mut dyn Iterator<Item = &CachedTokens>| {
            lengths.map(|tokens| tokens.total()).max().unwrap_or_default()
        };
        Some(CachedStages {
            anywhere: longest(&mut cached.iter()),
            best: longest(&mut self.eligible(cached)),
            selected: cached[position].total(),
        })
    }

    fn overlap(
        &self,
        question: &Question<'_>,
        request: &RequestShape,
        position: usize,
    ) -> Option<SelectionOverlap> {
        let cached = question.cached?;
        let unit = f64::from(request.unit.get());
        let blocks = |cached: &CachedTokens| request.weights.credit(*cached) / unit;
        Some(SelectionOverlap {
            selected: blocks(&cached[position]),
            best: self.eligible(cached).map(blocks).fold(0.0, f64::max),
            prompt: request.unit.occupied_blocks(request.input).get() as f64,
        })
    }

    /// The cached prefixes of the ranks that the last decision chose from.
    fn eligible<'a>(&'a self, cached: &'a [CachedTokens]) -> impl Iterator<Item = &'a CachedTokens> {
        let considered = cached.iter().zip(&self.candidates);
        considered.filter(|(_, candidate)| candidate.is_eligible()).map(|(tokens, _)| tokens)
    }
}

fn exclusion(rank: &Rank) -> Option<Exclusion> {
    (!rank.worker.takes_requests()).then_some(Exclusion::Unhealthy)
}

// === impl Question ===

impl Question<'_> {
    fn input(&self) -> Tokens {
        self.prompt_lengths.iter().copied().sum()
    }

    /// The unit of cost: the smallest block size among the ranks.
    fn unit(&self) -> BlockSize {
        self.ranks.iter().map(|rank| rank.block_size()).min().unwrap_or(BlockSize::DEFAULT)
    }

    fn cached_on(&self, position: usize) -> CachedTokens {
        self.cached.and_then(|cached| cached.get(position)).copied().unwrap_or(CachedTokens::NONE)
    }
}
