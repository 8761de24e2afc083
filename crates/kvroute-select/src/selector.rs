//! A pool's decisions: policy, load and booking in one step, the same for the live router and for a simulation.
//!
//! A decision that is not booked before the next one starts sends a burst to one worker, so whoever holds the selector
//! holds all of it. It knows no clock and makes no random number: both come with the question.

mod build;

use std::time::Duration;

use rand::RngCore;

use kvroute_core::{
    AttemptId, BlockSize, Blocks, CachedTokens, HashedPrompts, PlacementReason, RankKey, RankSlot, Tokens,
    TokensPerSecond, WorkerLoad,
};

use crate::passed_over::Weighed;
use crate::policy;
use crate::{
    Affinity, BookedPrompt, Booking, Candidate, Cost, CostWeights, Exclusion, LoadBook, NoCandidate, Pick,
    PickReason, Policy, Refusal, RequestShape,
};

/// The policies and the load of one pool.
#[derive(Debug)]
pub struct Selector {
    live: Box<dyn Policy>,
    /// Who takes over a computed prompt: what is cached says nothing there.
    takers: Box<dyn Policy>,
    shadows: Vec<Shadow>,
    book: LoadBook,
    next_attempt: u64,
    candidates: Vec<Candidate>,
    /// Whether one of them is chosen from for the first time.
    has_newcomers: bool,
    /// The same as a shadow narrows them.
    narrowed: Vec<Candidate>,
    costs: Vec<Option<Cost>>,
    /// Leading blocks of the prompt that are expected, by slot.
    expected: Vec<u32>,
    /// What was asked last.
    asked: Option<RequestShape>,
}

/// A policy that is asked beside the live one and obeyed by nobody.
#[derive(Debug)]
struct Shadow {
    policy: Box<dyn Policy>,
    /// What it picked last.
    picked: Option<usize>,
}

/// One rank, as whoever knows the fleet sees it at this moment.
#[derive(Clone, Copy, Debug)]
pub struct RankView {
    /// Which rank.
    pub slot: RankSlot,
    /// The same by its name.
    pub key: RankKey,
    /// Size of its blocks.
    pub block_size: BlockSize,
    /// Whether its cached prefix may lower its cost.
    pub has_credit: bool,
    /// Work that its engine has beyond what is booked here.
    pub foreign: ForeignLoad,
    /// Why it must not be picked.
    pub excluded: Option<Exclusion>,
}

/// What an engine said of its load: others may use it too. Zero where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForeignLoad {
    /// Requests that it runs or has waiting.
    pub requests: u64,
    /// Blocks of its running requests.
    pub blocks: Blocks,
}

/// One attempt to be placed.
#[derive(Debug)]
pub struct Question<'a> {
    /// The pool's ranks of this moment.
    pub ranks: &'a [RankView],
    /// Cached prefix on each rank; `None` where no index was asked.
    pub cached: Option<&'a [CachedTokens]>,
    /// The prompts as hashed; empty where they were not.
    pub hashed: &'a HashedPrompts,
    /// Length of each prompt; an estimate where they were not tokenized.
    pub prompt_lengths: &'a [Tokens],
    /// Answers a prompt.
    pub choices: u32,
    /// Whether the prompt comes computed, so that only its generation is placed: by load, whatever the live policy.
    pub takes_over: bool,
    /// Whether the answer shows when the prompt is computed: true for streams.
    pub shows_first_token: bool,
    /// The pool's weights, or those a trusted caller asked for.
    pub weights: CostWeights,
    /// What the request has in common with others.
    pub affinity: Affinity,
    /// Whether the caller named the rank; the others are excluded then.
    pub is_pinned: bool,
    /// The moment, by the clock that all calls share.
    pub now: Duration,
}

/// Nobody could be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nobody {
    /// Why the policy leaves nobody to such a request, where that is the policy's doing.
    pub refusal: Option<Refusal>,
}

/// A decision that is booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Fences the booking.
    pub attempt: AttemptId,
    /// Position among the question's ranks.
    pub position: usize,
    /// Why this rank.
    pub reason: PickReason,
}

// === impl Selector ===

impl Selector {
    /// A selector without load.
    pub fn new(live: Box<dyn Policy>, shadows: Vec<Box<dyn Policy>>) -> Self {
        let shadows = shadows.into_iter().map(|policy| Shadow { policy, picked: None }).collect();
        Self {
            live,
            takers: policy::by_load(),
            shadows,
            book: LoadBook::new(),
            next_attempt: 1,
            candidates: Vec::new(),
            has_newcomers: false,
            narrowed: Vec::new(),
            costs: Vec::new(),
            expected: Vec::new(),
            asked: None,
        }
    }

    /// Picks a rank and books the attempt on it. The shadows have random numbers of their own, so that they take none
    /// from the live policy.
    pub fn decide(
        &mut self,
        question: &Question<'_>,
        random: &mut dyn RngCore,
        shadow_random: &mut dyn RngCore,
    ) -> Result<Decided, Nobody> {
        let request = self.consider(question);
        if self.has_newcomers {
            self.book.welcome(&self.candidates, question.now);
        }
        self.ask_shadows(question, &request, shadow_random);
        let pick = self.pick(question, &request, random)?;
        if !question.takes_over {
            self.live.placed(&request, &self.candidates[pick.candidate]);
        }
        for shadow in &mut self.shadows {
            if let Some(picked) = shadow.picked {
                shadow.policy.placed(&request, &self.candidates[picked]);
            }
        }
        let attempt = AttemptId::new(self.next_attempt);
        self.next_attempt += 1;
        self.book(attempt, question, pick.candidate);
        Ok(Decided { attempt, position: pick.candidate, reason: pick.reason })
    }

    /// Picks a rank as [`Selector::decide`] would at this moment, with the same random numbers, and books nothing.
    pub fn advise(
        &mut self,
        question: &Question<'_>,
        random: &mut dyn RngCore,
        shadow_random: &mut dyn RngCore,
    ) -> Result<Pick, Nobody> {
        let request = self.consider(question);
        self.ask_shadows(question, &request, shadow_random);
        self.pick(question, &request, random)
    }

    /// The ranks as the last decision or advice saw them, in the order of its question.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// What each of [`Selector::candidates`] would have cost; empty where the policy weighs no cost.
    pub fn costs(&self) -> &[Option<Cost>] {
        &self.costs
    }

    /// Why the last decision or advice picked a rank with a shorter cached prefix than the longest that it could have
    /// picked. `cached` and `picked` are those of its question and of its answer; `None` where nothing was given up.
    pub fn given_up_for(&self, cached: &[CachedTokens], picked: usize) -> Option<PlacementReason> {
        let choice = self.candidates.iter().zip(cached).filter(|(candidate, _)| candidate.is_eligible());
        let best = choice.map(|(_, cached)| cached.total()).max()?;
        if cached.get(picked)?.total() >= best {
            return None;
        }
        if !self.live.uses_index() {
            return Some(PlacementReason::Policy);
        }
        let (request, candidates) = (self.asked.as_ref()?, &self.candidates[..]);
        Some(Weighed { request, candidates, cached, best }.reason())
    }

    /// Name of each shadow and the position of what it would have picked in the last decision or advice.
    pub fn shadow_picks(&self) -> impl Iterator<Item = (&'static str, Option<usize>)> {
        self.shadows.iter().map(|shadow| (shadow.policy.name(), shadow.picked))
    }

    /// The live policy.
    pub fn policy(&self) -> &dyn Policy {
        self.live.as_ref()
    }

    /// The load of all ranks.
    pub fn book_mut(&mut self) -> &mut LoadBook {
        &mut self.book
    }

    /// Prompt tokens that a rank computes a second, as its streams showed; `None` before they showed enough.
    pub fn prefill_speed(&self, slot: RankSlot) -> Option<TokensPerSecond> {
        self.book.prefill_speed(slot)
    }

    /// Load of a rank.
    pub fn load(&self, slot: RankSlot) -> WorkerLoad {
        self.book.load(slot)
    }

    fn pick(
        &mut self,
        question: &Question<'_>,
        request: &RequestShape,
        random: &mut dyn RngCore,
    ) -> Result<Pick, Nobody> {
        let policy = if question.takes_over { &self.takers } else { &self.live };
        policy.restrict(request, &mut self.candidates);
        let pick = policy.pick(request, &self.candidates, &mut self.costs, random);
        let pick =
            pick.map_err(|NoCandidate| Nobody { refusal: policy.why_none(request, &self.candidates) })?;
        let reason = if question.is_pinned { PickReason::Pinned } else { pick.reason };
        Ok(Pick { reason, ..pick })
    }

    /// Each shadow chooses from what nobody has narrowed yet. Where the caller chose, there is nothing to compare, and
    /// neither where only a generation is placed.
    fn ask_shadows(&mut self, question: &Question<'_>, request: &RequestShape, random: &mut dyn RngCore) {
        for shadow in &mut self.shadows {
            shadow.picked = None;
            if request.is_pinned || question.takes_over {
                continue;
            }
            self.narrowed.clone_from(&self.candidates);
            shadow.policy.restrict(request, &mut self.narrowed);
            let pick = shadow.policy.pick(request, &self.narrowed, &mut self.costs, random);
            shadow.picked = pick.ok().map(|pick| pick.candidate);
        }
    }

    /// What the index knows counts only for a policy that asks it: looked up beside another one, for a shadow or for
    /// show, it must change nothing.
    fn book(&mut self, attempt: AttemptId, question: &Question<'_>, position: usize) {
        let candidate = &self.candidates[position];
        let lengths = question.prompt_lengths;
        let (mut known, mut hashed) = (Tokens::ZERO, &[][..]);
        if self.live.uses_index() {
            known = question.cached_on(position).total().max(candidate.cached.total() + candidate.expected);
            hashed = question.hashed.of_size(candidate.block_size);
        }
        let hashes_of = |prompt: usize| hashed.get(prompt).map_or(&[][..], |blocks| blocks.hashes());
        let prompt = |(prompt, &tokens)| BookedPrompt { tokens, hashes: hashes_of(prompt) };
        let prompts: Vec<_> = lengths.iter().enumerate().map(prompt).collect();
        let booking = Booking {
            prefill: if question.takes_over { Tokens::ZERO } else { question.input().saturating_sub(known) },
            block_size: candidate.block_size,
            prompts: &prompts,
            choices: question.choices,
            shows_first_token: question.shows_first_token,
            now: question.now,
        };
        self.book.book(attempt, candidate.slot, &booking);
    }
}

#[cfg(test)]
mod tests;
