//! What placing a request on a candidate costs, with every term kept for the explanation.
//!
//! Expected tokens are those that an unfinished prompt of the rank is about to compute and the request shares. They
//! stand in the rank's backlog, once, and in the request's own input, once more; both must go, since the request waits
//! there for work that it would have to do itself anywhere else, and then need not do it. So the rank that computes a
//! prompt looks to an equal prompt nearly as an idle one does that has it cached, and a burst of equal prompts gathers
//! instead of being computed everywhere.
//!
//! What ends the gathering is the decode term. A step reads the context of every sequence, whether it is shared or not,
//! so a rank that answers many long prompts at once answers each of them more slowly, however little room they take
//! together. Reading a token costs far less than computing it, even over all the steps of an answer: its weight is what
//! keeps long contexts from drowning the cache.
//!
//! Recent work counts at both ends. Beyond [`SLACK`] times a rank's fair share it is a cost like work that waits, so that
//! the favourite of a fleet whose requests come one by one does not stay the favourite for ever. Below half the share a
//! rank is as much cheaper as it lacks, so that ranks nobody uses are opened although the first one has what all
//! requests share. In between a cache decides undisturbed. Neither is more than the request itself: a memory may outweigh
//! a cache, never the load of the moment, or a rank that comes back after an hour would get everything.
//!
//! Where the load alone decides, recent work decides among equals and never more: what waits on a rank that hangs is load,
//! and what such a rank has not done lately must not outweigh it.
//!
//! What a request computes holds up those who come after it as well, so it counts [`FOLLOWERS`] times as much as what it
//! waits for itself.

use kvroute_core::Tokens;

use crate::{Candidate, RequestShape};

/// An amount of work in blocks of the pool's smallest size, after weighting. Not a count of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct WeightedBlocks(f64);

/// The parts of one candidate's cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostTerms {
    /// Prefill tokens booked there and not computed yet.
    pub backlog: WeightedBlocks,
    /// The request's whole input.
    pub request: WeightedBlocks,
    /// The cached prefix, each tier by its weight.
    pub credit: WeightedBlocks,
    /// Tokens behind the cached prefix that unfinished prompts there are about to bring.
    pub expected: WeightedBlocks,
    /// `prefill_scale × (max(backlog − expected, 0) + 1.2 × max(request − credit − expected, 0))`.
    pub prefill: WeightedBlocks,
    /// `decode_weight ×` context of the active sequences.
    pub decode: WeightedBlocks,
    /// `request_weight ×` attempts in flight.
    pub requests: WeightedBlocks,
    /// `recent_weight ×` recent work beyond the fair share, less what it lacks to half of it. Of the load alone: less than
    /// any load, and more for more recent work.
    pub recent: WeightedBlocks,
}

/// The cost of one candidate: lower is better.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// What it is made of.
    pub terms: CostTerms,
    /// `prefill + decode + requests + recent`.
    pub total: WeightedBlocks,
}

/// Multiple of its fair share of recent work up to which a rank's affinity is left alone.
const SLACK: f64 = 1.25;

/// Recent work by which a rank may lead the others whatever their share is: so many requests like the one at hand. While
/// there were so few, who is ahead is chance, and moving a prompt for it would only compute and keep it twice.
const LEADING_REQUESTS: f64 = 2.0;

/// The same in tokens, for short requests: next to no work at all.
const SMALL_LEAD: f64 = 2048.0;

/// Part of its fair share of recent work below which a rank is cheaper by what it lacks.
const UNUSED: f64 = 0.5;

/// Weight of recent work within its share: next to nothing, so that it decides only among equals.
const TIE_BREAK: f64 = 0.001;

/// Bound, in tokens, of what recent work adds to the load alone: less than a token that is read at its usual weight.
const LESS_THAN_LOAD: f64 = 0.001;

/// Weight of what a request computes against what it waits for.
const FOLLOWERS: f64 = 1.2;

/// What the request itself brings to a candidate's cost, in tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    input: f64,
    credit: f64,
    expected: f64,
}

// === impl WeightedBlocks ===

impl WeightedBlocks {
    /// No work.
    pub const ZERO: Self = Self(0.0);

    /// Wraps a plain number.
    pub const fn new(blocks: f64) -> Self {
        Self(blocks)
    }

    /// The plain number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

// === impl Cost ===

impl Cost {
    /// Cost of placing the request there: work that waits, less what its cache and its unfinished prompts save.
    #[inline]
    pub fn of(request: &RequestShape, candidate: &Candidate) -> Self {
        let share = Share {
            input: float(request.input),
            credit: request.weights.credit(candidate.cached),
            expected: float(candidate.expected),
        };
        Self::weigh(request, candidate, share, request.weights.recent * of_recent(candidate, request))
    }

    /// Cost of what is already there, whatever the request and the cache: the load alone.
    pub fn of_load(request: &RequestShape, candidate: &Candidate) -> Self {
        Self::weigh(request, candidate, Share::default(), among_equals(candidate, request))
    }

    /// Sums in tokens and divides once, so that equal work gives equal totals whatever the unit.
    #[inline]
    fn weigh(request: &RequestShape, candidate: &Candidate, share: Share, recent: f64) -> Self {
        let unit = f64::from(request.unit.get());
        let blocks = |tokens: f64| WeightedBlocks(tokens / unit);
        let Share { input, credit, expected } = share;
        let load = &candidate.load;
        let backlog = float(load.prefill_tokens);
        let waiting = (backlog - expected).max(0.0);
        let own = (input - credit - expected).max(0.0);
        let prefill = request.weights.prefill_scale * (waiting + FOLLOWERS * own);
        let weights = &request.weights;
        let decode = weights.decode * float(candidate.context);
        let requests = weights.request * load.active_requests as f64 * unit;
        let terms = CostTerms {
            backlog: blocks(backlog),
            request: blocks(input),
            credit: blocks(credit),
            expected: blocks(expected),
            prefill: blocks(prefill),
            decode: blocks(decode),
            requests: blocks(requests),
            recent: blocks(recent),
        };
        Self { terms, total: blocks(prefill + decode + requests + recent) }
    }
}

/// What a rank's memory adds to its cost, or takes off.
fn of_recent(candidate: &Candidate, request: &RequestShape) -> f64 {
    let (recent, fair) = (float(candidate.recent), float(request.fair_recent));
    let most = float(request.input);
    let share = (SLACK * fair).max(fair + SMALL_LEAD.max(LEADING_REQUESTS * most));
    let lacking = (UNUSED * fair - recent).clamp(0.0, most);
    let beyond = (recent - share).clamp(0.0, most);
    TIE_BREAK * recent + beyond - lacking
}

/// What it adds where only loads are compared. Grows with the memory and stays below its bound, however large that is.
fn among_equals(candidate: &Candidate, request: &RequestShape) -> f64 {
    let (recent, fair) = (float(candidate.recent), float(request.fair_recent));
    request.weights.recent.min(1.0) * LESS_THAN_LOAD * recent / (recent + fair + 1.0)
}

fn float(tokens: Tokens) -> f64 {
    tokens.get() as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kvroute_core::{BlockSize, Blocks, CachedTokens, RankKey, RankSlot, WorkerLoad};

    use super::*;
    use crate::{Affinity, CostWeights};

    fn request(weights: CostWeights) -> RequestShape {
        RequestShape {
            input: Tokens::new(1000),
            unit: BlockSize::new(10).unwrap(),
            weights,
            affinity: Affinity::default(),
            fair_recent: Tokens::ZERO,
            is_pinned: false,
            now: Duration::ZERO,
        }
    }

    fn busy() -> Candidate {
        Candidate {
            slot: RankSlot::new(0),
            key: RankKey::new(0),
            block_size: BlockSize::new(20).unwrap(),
            cached: CachedTokens { device: Tokens::new(400), host: Tokens::new(200), disk: Tokens::new(100) },
            expected: Tokens::ZERO,
            load: WorkerLoad {
                prefill_tokens: Tokens::new(300),
                decode_blocks: Blocks::new(7),
                active_requests: 3,
            },
            context: Tokens::new(140),
            recent: Tokens::ZERO,
            excluded: None,
        }
    }

    /// Weights that are easy to reckon with.
    fn even() -> CostWeights {
        CostWeights { decode: 1.0, ..CostWeights::default() }
    }

    fn terms(cost: &Cost) -> [f64; 7] {
        let terms = &cost.terms;
        [terms.backlog, terms.request, terms.credit, terms.prefill, terms.decode, terms.requests, cost.total]
            .map(WeightedBlocks::get)
    }

    #[test]
    fn every_term_is_in_the_pools_smallest_blocks() {
        let cost = Cost::of(&request(even()), &busy());
        assert_eq!(terms(&cost), [30.0, 100.0, 57.5, 81.0, 14.0, 0.0, 95.0]);
    }

    #[test]
    fn every_weight_moves_its_own_term() {
        let weights = CostWeights {
            prefill_scale: 2.0,
            device: 0.5,
            host: 0.0,
            disk: 1.0,
            decode: 3.0,
            request: 4.0,
            recent: 1.0,
            temperature: 9.0,
        };
        let cost = Cost::of(&request(weights), &busy());
        assert_eq!(terms(&cost), [30.0, 100.0, 30.0, 228.0, 42.0, 12.0, 282.0]);
    }

    #[test]
    fn expected_tokens_leave_the_backlog_and_the_request_and_are_read_all_the_same() {
        let cost = Cost::of(&request(even()), &Candidate { expected: Tokens::new(60), ..busy() });
        assert_eq!(terms(&cost), [30.0, 100.0, 57.5, 67.8, 14.0, 0.0, 81.8]);
        assert_eq!(cost.terms.expected.get(), 6.0);
    }

    #[test]
    fn more_expected_than_booked_costs_nothing() {
        let cost = Cost::of(&request(even()), &Candidate { expected: Tokens::new(10_000), ..busy() });
        assert_eq!((cost.terms.prefill.get(), cost.total.get()), (0.0, 14.0));
    }

    #[test]
    fn recent_work_counts_below_half_the_share_and_beyond_it_by_the_request_at_most() {
        let remembering =
            RequestShape { fair_recent: Tokens::new(4000), ..request(CostWeights { recent: 2.0, ..even() }) };
        let recent = |tokens| {
            let busy = Candidate { recent: Tokens::new(tokens), ..busy() };
            Cost::of(&remembering, &busy).terms.recent.get().round()
        };
        let (lacking, beyond) = ([0, 500, 1500, 2000], [6048, 6548, 50_000]);
        assert_eq!(lacking.map(recent), [-200.0, -200.0, -100.0, 0.0]);
        assert_eq!(beyond.map(recent), [1.0, 101.0, 210.0]);
    }

    #[test]
    fn credit_beyond_the_request_does_not_pay_for_what_waits() {
        let weights = CostWeights { device: 100.0, ..even() };
        assert_eq!(terms(&Cost::of(&request(weights), &busy()))[3], 30.0);
    }

    #[test]
    fn beside_the_load_alone_recent_work_is_less_than_a_token_that_is_read() {
        let fair = RequestShape { fair_recent: Tokens::new(4000), ..request(CostWeights::default()) };
        let of = |recent, context| {
            let rank = Candidate { recent: Tokens::new(recent), context: Tokens::new(context), ..busy() };
            Cost::of_load(&fair, &rank).total.get()
        };
        assert!(
            of(0, 140) < of(1, 140) && of(1, 140) < of(50_000, 140) && of(50_000, 140) < of(1 << 50, 140)
        );
        assert!(of(1 << 50, 140) < of(0, 141));
    }

    #[test]
    fn the_load_alone_knows_neither_request_nor_cache() {
        let expecting = Candidate { expected: Tokens::new(60), ..busy() };
        let cost = Cost::of_load(&request(even()), &expecting);
        assert_eq!(terms(&cost), [30.0, 0.0, 0.0, 30.0, 14.0, 0.0, 44.0]);
        assert_eq!(cost.terms.expected.get(), 0.0);
    }
}
