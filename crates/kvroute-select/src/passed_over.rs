//! Why the longest cached prefix was passed over.
//!
//! The terms of the cost are taken away one after the other, from what the load of the moment says to what is thought of
//! the cache itself, until a holder of the longest prefix would have been the cheapest. The term that had to go last is
//! what it was given up for. Without all of them only the raw prefix counts, so there always is one.

use kvroute_core::{CachedTokens, PlacementReason, Tokens};

use crate::{Candidate, Cost, CostWeights, RequestShape};

/// One decision of a policy that weighs costs, after it was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighed<'a> {
    pub(crate) request: &'a RequestShape,
    pub(crate) candidates: &'a [Candidate],
    /// The raw cached prefixes, whatever credit they earned.
    pub(crate) cached: &'a [CachedTokens],
    /// The longest of them that could be picked.
    pub(crate) best: Tokens,
}

/// The terms in the order in which they are taken away.
const TERMS: [PlacementReason; 6] = [
    PlacementReason::Load,
    PlacementReason::RequestCount,
    PlacementReason::Recent,
    PlacementReason::TierWeight,
    PlacementReason::Expected,
    PlacementReason::Trust,
];

// === impl Weighed ===

impl Weighed<'_> {
    /// What the longest prefix was given up for.
    pub(crate) fn reason(&self) -> PlacementReason {
        if self.holder_is_cheapest(0) {
            let samples = self.request.weights.temperature > 0.0;
            return if samples { PlacementReason::Sampling } else { PlacementReason::Tie };
        }
        let names_the_loss = |taken: &usize| self.holder_is_cheapest(taken + 1);
        (0..TERMS.len()).find(names_the_loss).map_or(PlacementReason::Trust, |last| TERMS[last])
    }

    /// Whether no candidate is cheaper than every holder, once the first so many terms are gone.
    fn holder_is_cheapest(&self, taken: usize) -> bool {
        let request =
            RequestShape { weights: without(&TERMS[..taken], self.request.weights), ..*self.request };
        let (mut holders, mut others) = (f64::INFINITY, f64::INFINITY);
        for (candidate, cached) in self.candidates.iter().zip(self.cached) {
            if !candidate.is_eligible() {
                continue;
            }
            let reduced = reduce(&TERMS[..taken], candidate, *cached);
            let cost = Cost::of(&request, &reduced).total.get();
            let side = if cached.total() == self.best { &mut holders } else { &mut others };
            *side = side.min(cost);
        }
        holders <= others
    }
}

fn without(terms: &[PlacementReason], weights: CostWeights) -> CostWeights {
    let mut left = weights;
    for term in terms {
        match term {
            PlacementReason::RequestCount => left.request = 0.0,
            PlacementReason::Recent => left.recent = 0.0,
            PlacementReason::TierWeight => (left.device, left.host, left.disk) = (1.0, 1.0, 1.0),
            _ => {}
        }
    }
    left
}

fn reduce(terms: &[PlacementReason], candidate: &Candidate, cached: CachedTokens) -> Candidate {
    let mut left = *candidate;
    for term in terms {
        match term {
            PlacementReason::Load => {
                left.load.prefill_tokens = Tokens::ZERO;
                left.context = Tokens::ZERO;
            }
            PlacementReason::Expected => left.expected = Tokens::ZERO,
            PlacementReason::Trust => left.cached = cached,
            _ => {}
        }
    }
    left
}

#[cfg(test)]
mod tests;
