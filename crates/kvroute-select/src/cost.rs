//! What placing a request on a candidate costs, with every term kept for the explanation.
//!
//! Expected tokens are those that an unfinished prompt of the rank is about to compute and the request shares. They
//! stand in the rank's backlog, once, and in the request's own input, once more; both must go, since the request waits
//! there for work that it would have to do itself anywhere else, and then need not do it. They also stand in the rank's
//! decode blocks, where sharing them takes no further room. So the rank that computes a prompt looks to an equal prompt
//! as an idle one does that has it cached, and a burst of equal prompts gathers instead of being computed everywhere.
//! Only what such a prompt adds by itself (its last tokens, its output) still counts, and in the end outweighs the rest.

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
    /// `prefill_scale × max(backlog + request − credit − 2 × expected, 0)`.
    pub prefill: WeightedBlocks,
    /// KV blocks of the active sequences, less those expected.
    pub decode: WeightedBlocks,
    /// `request_weight ×` attempts in flight.
    pub requests: WeightedBlocks,
}

/// The cost of one candidate: lower is better.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// What it is made of.
    pub terms: CostTerms,
    /// `prefill + decode + requests`.
    pub total: WeightedBlocks,
}

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
    pub fn of(request: &RequestShape, candidate: &Candidate) -> Self {
        let share = Share {
            input: float(request.input),
            credit: request.weights.credit(candidate.cached),
            expected: float(candidate.expected),
        };
        Self::weigh(request, candidate, share)
    }

    /// Cost of what is already there, whatever the request and the cache: the load alone.
    pub fn of_load(request: &RequestShape, candidate: &Candidate) -> Self {
        Self::weigh(request, candidate, Share::default())
    }

    /// Sums in tokens and divides once, so that equal work gives equal totals whatever the unit.
    fn weigh(request: &RequestShape, candidate: &Candidate, share: Share) -> Self {
        let unit = f64::from(request.unit.get());
        let blocks = |tokens: f64| WeightedBlocks(tokens / unit);
        let Share { input, credit, expected } = share;
        let load = &candidate.load;
        let backlog = float(load.prefill_tokens);
        let remaining = (backlog + input - credit - 2.0 * expected).max(0.0);
        let prefill = request.weights.prefill_scale * remaining;
        let decode = (float(candidate.block_size.tokens(load.decode_blocks)) - expected).max(0.0);
        let requests = request.weights.request * load.active_requests as f64 * unit;
        let terms = CostTerms {
            backlog: blocks(backlog),
            request: blocks(input),
            credit: blocks(credit),
            expected: blocks(expected),
            prefill: blocks(prefill),
            decode: blocks(decode),
            requests: blocks(requests),
        };
        Self { terms, total: blocks(prefill + decode + requests) }
    }
}

fn float(tokens: Tokens) -> f64 {
    tokens.get() as f64
}

#[cfg(test)]
mod tests {
    use kvroute_core::{BlockSize, Blocks, RankSlot, WorkerLoad};

    use super::*;
    use crate::{CachedTokens, CostWeights};

    fn request(weights: CostWeights) -> RequestShape {
        RequestShape { input: Tokens::new(1000), unit: BlockSize::new(10).unwrap(), weights }
    }

    fn busy() -> Candidate {
        Candidate {
            slot: RankSlot::new(0),
            block_size: BlockSize::new(20).unwrap(),
            cached: CachedTokens { device: Tokens::new(400), host: Tokens::new(200), disk: Tokens::new(100) },
            expected: Tokens::ZERO,
            load: WorkerLoad {
                prefill_tokens: Tokens::new(300),
                decode_blocks: Blocks::new(7),
                active_requests: 3,
            },
            excluded: None,
        }
    }

    fn terms(cost: &Cost) -> [f64; 7] {
        let terms = &cost.terms;
        [terms.backlog, terms.request, terms.credit, terms.prefill, terms.decode, terms.requests, cost.total]
            .map(WeightedBlocks::get)
    }

    #[test]
    fn every_term_is_in_the_pools_smallest_blocks() {
        let cost = Cost::of(&request(CostWeights::default()), &busy());
        assert_eq!(terms(&cost), [30.0, 100.0, 57.5, 72.5, 14.0, 0.0, 86.5]);
    }

    #[test]
    fn every_weight_moves_its_own_term() {
        let weights = CostWeights {
            prefill_scale: 2.0,
            device: 0.5,
            host: 0.0,
            disk: 1.0,
            request: 4.0,
            temperature: 9.0,
        };
        let cost = Cost::of(&request(weights), &busy());
        assert_eq!(terms(&cost), [30.0, 100.0, 30.0, 200.0, 14.0, 12.0, 226.0]);
    }

    #[test]
    fn expected_tokens_leave_the_backlog_the_request_and_the_decode_blocks() {
        let cost =
            Cost::of(&request(CostWeights::default()), &Candidate { expected: Tokens::new(60), ..busy() });
        assert_eq!(terms(&cost), [30.0, 100.0, 57.5, 60.5, 8.0, 0.0, 68.5]);
        assert_eq!(cost.terms.expected.get(), 6.0);
    }

    #[test]
    fn more_expected_than_booked_costs_nothing() {
        let cost = Cost::of(
            &request(CostWeights::default()),
            &Candidate { expected: Tokens::new(10_000), ..busy() },
        );
        assert_eq!((cost.terms.prefill.get(), cost.terms.decode.get(), cost.total.get()), (0.0, 0.0, 0.0));
    }

    #[test]
    fn credit_beyond_the_work_never_makes_a_cost_negative() {
        let weights = CostWeights { device: 100.0, ..CostWeights::default() };
        assert_eq!(terms(&Cost::of(&request(weights), &busy()))[3], 0.0);
    }

    #[test]
    fn the_load_alone_knows_neither_request_nor_cache() {
        let expecting = Candidate { expected: Tokens::new(60), ..busy() };
        let cost = Cost::of_load(&request(CostWeights::default()), &expecting);
        assert_eq!(terms(&cost), [30.0, 0.0, 0.0, 30.0, 14.0, 0.0, 44.0]);
        assert_eq!(cost.terms.expected.get(), 0.0);
    }
}
