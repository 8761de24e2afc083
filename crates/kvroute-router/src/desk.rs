//! Where decisions are taken and booked, in one step.
//!
//! A decision that is not booked before the next one starts sends a burst to one worker. So everything that decides
//! shares one lock, held for a few microseconds and never across an await.

use std::sync::Arc;
use std::time::Duration;

use kvroute_core::{
    AttemptId, BlockSize, CachedTokens, Exclusion, HashedPrompts, Phase, PlacementReason, Tokens,
    TokensPerSecond, WorkerId,
};
use kvroute_engine::EngineKind;
use kvroute_funnel::CachedStages;
use kvroute_metrics::SelectionOverlap;
use kvroute_openai::ClientRequest;
use kvroute_select::{
    Affinity, Bound, Candidate, CostWeights, Decided, Nobody, Pick, PickReason, Question, RankView, Selector,
};
use parking_lot::Mutex;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

use crate::affinity;
use crate::hints::{Hints, Pin};
use crate::rank::Rank;
use crate::worker::Pass;

/// The policy and the load of one pool.
#[derive(Debug)]
pub(crate) struct Desk {
    state: Mutex<DeskState>,
    /// Whether the policy has a rule where requests may go; if not, nobody has to wait for the lock to hear of it.
    binds: bool,
    opened: Instant,
}

#[derive(Debug)]
struct DeskState {
    selector: Selector,
    random: ChaCha8Rng,
    shadow_random: ChaCha8Rng,
    ranks: Vec<RankView>,
}

/// One attempt to be placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inquiry<'a> {
    /// What the attempt is to do of the request.
    pub(crate) phase: Phase,
    /// The kind of engine that the prompt's KV comes from; `None` where it comes from nobody.
    pub(crate) engine: Option<EngineKind>,
    /// Kinds of engines that a decode worker takes KV over from; empty where that is no matter, or nobody does.
    pub(crate) takers: &'a [EngineKind],
    /// The pool's ranks of this moment that take this phase.
    pub(crate) ranks: &'a [Arc<Rank>],
    /// Whether the pool has others beside them.
    pub(crate) has_others: bool,
    /// Cached prefix on each rank; `None` where no index was asked.
    pub(crate) cached: Option<&'a [CachedTokens]>,
    /// The prompts as hashed; empty where they were not.
    pub(crate) hashed: &'a HashedPrompts,
    /// Length of each prompt; an estimate where they were not tokenized.
    pub(crate) prompt_lengths: &'a [Tokens],
    /// Answers a prompt.
    pub(crate) choices: u32,
    /// Whether the answer is a stream, which shows when the prompt is computed.
    pub(crate) is_stream: bool,
    /// The pool's weights, or those a trusted caller asked for.
    pub(crate) weights: CostWeights,
    /// What the request has in common with others.
    pub(crate) affinity: Affinity,
    /// The rank or ranks that the caller named.
    pub(crate) pin: Option<&'a Pin>,
    /// The adapter that the request asks for.
    pub(crate) adapter: Option<&'a str>,
    /// Workers that an earlier attempt of the request failed on.
    pub(crate) tried: &'a [WorkerId],
}

/// A decision that is booked.
#[derive(Debug)]
pub(crate) struct Placement<T> {
    /// Fences the booking.
    pub(crate) attempt: AttemptId,
    /// The rank.
    pub(crate) rank: Arc<Rank>,
    /// What the attempt may tell of its worker. Taken with the decision: of two that come at once one tries a worker.
    pub(crate) pass: Pass,
    /// A, F2 and F3; `None` where no index was asked.
    pub(crate) stages: Option<CachedStages>,
    /// What was given up between them.
    pub(crate) given_up: GivenUp,
    /// How fast the rank computes prompts, if its streams have shown it.
    pub(crate) speed: Option<TokensPerSecond>,
    /// What the decision saw and took, weighted by tier; `None` where no index was asked.
    pub(crate) overlap: Option<SelectionOverlap>,
    /// Why this rank.
    pub(crate) reason: PickReason,
    /// What its shadows would have taken: the name of each and the cached prefix on its pick.
    pub(crate) shadows: Vec<(&'static str, Tokens)>,
    /// What was made of the decision while its particulars were at hand.
    pub(crate) record: T,
}

/// Why less than the longest cached prefix was picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenUp {
    /// Of A − F2: the first reason that excluded any holder of A. `None` where nothing was lost.
    pub(crate) eligibility: Option<Exclusion>,
    /// Of F2 − F3; `None` where nothing was lost.
    pub(crate) placement: Option<PlacementReason>,
}

/// The particulars of a decision or an advice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Particulars<'a> {
    pub(crate) selector: &'a Selector,
    pub(crate) pick: Pick,
    /// `None` for an advice.
    pub(crate) attempt: Option<AttemptId>,
    /// A, F2 and F3; `None` where no index was asked.
    pub(crate) stages: Option<CachedStages>,
    /// What was given up between them.
    pub(crate) given_up: GivenUp,
}

// === impl Desk ===

impl Desk {
    /// A desk without load.
    pub(crate) fn new(selector: Selector, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let shadow_random = ChaCha8Rng::seed_from_u64(seed ^ random.clone().next_u64());
        random.set_stream(1);
        let binds = selector.policy().binds();
        let state = DeskState { selector, random, shadow_random, ranks: Vec::new() };
        Self { state: Mutex::new(state), binds, opened: Instant::now() }
    }

    /// Picks a rank and books the attempt on it. `record` sees the particulars before the next decision.
    pub(crate) fn place<T>(
        &self,
        inquiry: &Inquiry<'_>,
        record: impl FnOnce(&Particulars<'_>) -> T,
    ) -> Result<Placement<T>, Nobody> {
        let now = self.now();
        let mut desk = self.state.lock();
        let DeskState { selector, random, shadow_random, ranks } = &mut *desk;
        let question = inquiry.question(ranks, now);
        let Decided { attempt, position, reason } = selector.decide(&question, random, shadow_random)?;
        let rank = Arc::clone(&inquiry.ranks[position]);
        rank.metrics.set_load(&selector.load(rank.slot));
        let stages = stages(inquiry, selector.candidates(), position);
        let given_up = GivenUp::of(inquiry, selector, position);
        let pick = Pick { candidate: position, reason };
        Ok(Placement {
            attempt,
            stages,
            given_up,
            speed: selector.prefill_speed(rank.slot),
            pass: rank.worker.pass(),
            rank,
            overlap: overlap(inquiry, selector.candidates(), position),
            reason,
            shadows: shadows(inquiry, selector),
            record: record(&Particulars { selector, pick, attempt: Some(attempt), stages, given_up }),
        })
    }

    /// Picks a rank as [`Desk::place`] would at this moment, and leaves no trace of it.
    pub(crate) fn advise<T>(
        &self,
        inquiry: &Inquiry<'_>,
        record: impl FnOnce(&Particulars<'_>) -> T,
    ) -> Result<T, Nobody> {
        let now = self.now();
        let mut desk = self.state.lock();
        let DeskState { selector, random, shadow_random, ranks } = &mut *desk;
        let question = inquiry.question(ranks, now);
        let pick = selector.advise(&question, &mut random.clone(), &mut shadow_random.clone())?;
        let stages = stages(inquiry, selector.candidates(), pick.candidate);
        let given_up = GivenUp::of(inquiry, selector, pick.candidate);
        Ok(record(&Particulars { selector, pick, attempt: None, stages, given_up }))
    }

    /// The attempt's first token arrived: its prefill is done.
    pub(crate) fn first_token(&self, attempt: AttemptId, rank: &Rank) {
        self.update(rank, |selector, now| selector.book_mut().first_token(attempt, now));
    }

    /// A choice of the attempt grew.
    pub(crate) fn output(&self, attempt: AttemptId, rank: &Rank, choice: u32, tokens: Tokens) {
        self.update(rank, |selector, now| selector.book_mut().output(attempt, choice, tokens, now));
    }

    /// The attempt is over.
    pub(crate) fn release(&self, attempt: AttemptId, rank: &Rank) {
        self.update(rank, |selector, now| selector.book_mut().release(attempt, now));
    }

    /// The rank left the pool.
    pub(crate) fn forget(&self, rank: &Rank) {
        self.state.lock().selector.book_mut().remove_slot(rank.slot);
    }

    /// Where the policy lets a request go that names no rank.
    pub(crate) fn bound(&self, request: &ClientRequest, hints: &Hints) -> Bound {
        if !self.binds {
            return Bound::Free;
        }
        let affinity = affinity::of(request, hints.session);
        let now = self.now();
        self.state.lock().selector.policy().bound(&affinity, now)
    }

    /// Whether a rank has no more prefill booked than it is busy with.
    pub(crate) fn has_room<'a>(&self, mut ranks: impl Iterator<Item = &'a Arc<Rank>>) -> bool {
        let now = self.now();
        let mut desk = self.state.lock();
        desk.selector.book_mut().settle(now);
        ranks.any(|rank| match rank.busy_above() {
            Some(limit) => desk.selector.load(rank.slot).prefill_tokens <= limit,
            None => true,
        })
    }

    /// Attempts in flight on these ranks.
    pub(crate) fn running<'a>(&self, ranks: impl Iterator<Item = &'a Arc<Rank>>) -> u64 {
        let desk = self.state.lock();
        ranks.map(|rank| desk.selector.load(rank.slot).active_requests).sum()
    }

    /// When there should be room for one more that may use these ranks of all, while so many tokens wait in line.
    pub(crate) fn time_to_room<'a>(
        &self,
        usable: impl Iterator<Item = &'a Arc<Rank>>,
        all: impl Iterator<Item = &'a Arc<Rank>>,
        in_line: Tokens,
    ) -> Duration {
        let now = self.now();
        let mut desk = self.state.lock();
        let book = desk.selector.book_mut();
        book.settle(now);
        book.time_to_room(usable.map(|rank| rank.slot), all.map(|rank| rank.slot), in_line)
    }

    /// Shows what time alone has changed.
    pub(crate) fn show(&self, ranks: &[Arc<Rank>]) {
        let now = self.now();
        let mut desk = self.state.lock();
        desk.selector.book_mut().settle(now);
        for rank in ranks {
            rank.metrics.set_load(&desk.selector.load(rank.slot));
            rank.metrics.set_recent(desk.selector.book_mut().recent(now).of(rank.slot));
        }
    }

    fn update(&self, rank: &Rank, change: impl FnOnce(&mut Selector, Duration)) {
        let now = self.now();
        let mut desk = self.state.lock();
        change(&mut desk.selector, now);
        rank.metrics.set_load(&desk.selector.load(rank.slot));
    }

    /// The desk's clock.
    fn now(&self) -> Duration {
        self.opened.elapsed()
    }
}

// === impl GivenUp ===

impl GivenUp {
    fn of(inquiry: &Inquiry<'_>, selector: &Selector, position: usize) -> Self {
        let Some(cached) = inquiry.cached else { return Self::default() };
        Self {
            eligibility: excluded_holder(cached, selector.candidates()),
            placement: selector.given_up_for(cached, position),
        }
    }
}

/// The first reason that keeps any holder of the longest cached prefix out; `None` if one of them could be picked, or
/// nobody holds anything.
fn excluded_holder(cached: &[CachedTokens], candidates: &[Candidate]) -> Option<Exclusion> {
    let longest = cached.iter().map(|tokens| tokens.total()).max().filter(|longest| !longest.is_zero())?;
    let of_longest = cached.iter().zip(candidates).filter(|(tokens, _)| tokens.total() == longest);
    let exclusions = of_longest.map(|(_, candidate)| candidate.excluded);
    // An eligible holder has no reason, and none comes before every reason.
    exclusions.min().flatten()
}

// === impl Inquiry ===

impl<'a> Inquiry<'a> {
    /// Fills `views` anew with the ranks as they are now.
    fn question(&'a self, views: &'a mut Vec<RankView>, now: Duration) -> Question<'a> {
        views.clear();
        views.extend(self.ranks.iter().map(|rank| self.view(rank)));
        self.let_the_least_bad_in(views);
        Question {
            ranks: views,
            cached: self.cached,
            hashed: self.hashed,
            prompt_lengths: self.prompt_lengths,
            choices: self.choices,
            takes_over: self.phase == Phase::Decode,
            shows_first_token: self.is_stream,
            weights: self.weights,
            affinity: self.affinity,
            is_pinned: self.pin.is_some(),
            now,
        }
    }

    fn view(&self, rank: &Rank) -> RankView {
        RankView {
            slot: rank.slot,
            key: rank.key,
            block_size: rank.block_size(),
            has_credit: rank.has_credit(),
            foreign: rank.foreign_load(),
            excluded: self.exclusion(rank),
        }
    }

    /// Where every rank that could serve the request is out only for what it failed at before, one of them is tried all the
    /// same: the one that would be tried next, or all of them once each is being tried. A request would fail for certain
    /// otherwise. Whoever names a rank is told of its state instead.
    fn let_the_least_bad_in(&self, views: &mut [RankView]) {
        if self.pin.is_some() || views.iter().any(|view| view.excluded.is_none()) {
            return;
        }
        let could_serve = |rank: &&Arc<Rank>| self.lasting_exclusion(rank).is_none();
        let bad = self.ranks.iter().filter(could_serve).map(|rank| (rank.worker.badness(), &rank.worker));
        let Some(((is_tried, _), least_bad)) = bad.min_by_key(|(badness, _)| *badness) else { return };
        for (rank, view) in self.ranks.iter().zip(views) {
            if could_serve(&rank) && (is_tried || Arc::ptr_eq(&rank.worker, least_bad)) {
                view.excluded = None;
            }
        }
    }

    /// Why the rank must not get the request: of several reasons the one that the funnel's order puts first.
    fn exclusion(&self, rank: &Rank) -> Option<Exclusion> {
        let lasting = self.lasting_exclusion(rank);
        if rank.worker.is_admitted() {
            return lasting;
        }
        Some(lasting.map_or(Exclusion::Unhealthy, |reason| reason.min(Exclusion::Unhealthy)))
    }

    /// The same, whatever its worker failed at before.
    fn lasting_exclusion(&self, rank: &Rank) -> Option<Exclusion> {
        if self.pin.is_some_and(|pin| !pin.names(&rank.name)) {
            return Some(Exclusion::Pinned);
        }
        if let Some(reason) = rank.worker.exclusion() {
            return Some(reason);
        }
        if self.adapter.is_some_and(|adapter| !rank.serves_adapter(adapter)) {
            return Some(Exclusion::Adapter);
        }
        let has_no_taker = !self.takers.is_empty() && !self.takers.contains(&rank.engine);
        if has_no_taker || self.engine.is_some_and(|engine| engine != rank.engine) {
            return Some(Exclusion::Filtered);
        }
        self.tried.contains(&rank.name.worker).then_some(Exclusion::AlreadyTried)
    }
}

fn stages(inquiry: &Inquiry<'_>, candidates: &[Candidate], position: usize) -> Option<CachedStages> {
    let cached = inquiry.cached?;
    let longest = |lengths: &mut dyn Iterator<Item = &CachedTokens>| {
        lengths.map(|tokens| tokens.total()).max().unwrap_or_default()
    };
    Some(CachedStages {
        anywhere: longest(&mut cached.iter()),
        best: longest(&mut eligible(cached, candidates)),
        selected: cached[position].total(),
    })
}

fn overlap(inquiry: &Inquiry<'_>, candidates: &[Candidate], position: usize) -> Option<SelectionOverlap> {
    let cached = inquiry.cached?;
    let unit = candidates.iter().map(|candidate| candidate.block_size).min().unwrap_or(BlockSize::DEFAULT);
    let blocks = |cached: &CachedTokens| inquiry.weights.credit(*cached) / f64::from(unit.get());
    let input = inquiry.prompt_lengths.iter().copied().sum();
    Some(SelectionOverlap {
        selected: blocks(&cached[position]),
        best: eligible(cached, candidates).map(blocks).fold(0.0, f64::max),
        prompt: unit.occupied_blocks(input).get() as f64,
    })
}

/// The cached prefixes of the ranks that the decision chose from.
fn eligible<'a>(
    cached: &'a [CachedTokens],
    candidates: &'a [Candidate],
) -> impl Iterator<Item = &'a CachedTokens> {
    let considered = cached.iter().zip(candidates);
    considered.filter(|(_, candidate)| candidate.is_eligible()).map(|(tokens, _)| tokens)
}

fn shadows(inquiry: &Inquiry<'_>, selector: &Selector) -> Vec<(&'static str, Tokens)> {
    let Some(cached) = inquiry.cached else { return Vec::new() };
    let taken = |(name, position): (&'static str, Option<usize>)| Some((name, cached[position?].total()));
    selector.shadow_picks().filter_map(taken).collect()
}
