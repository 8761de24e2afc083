//! `kv`: the rank where the request costs least, counting what its cache saves.
//!
//! Affinity alone herds a fleet onto one worker, load alone throws the cache away; the cost function weighs
//! both in one unit. A temperature above 0 spreads near-equal costs.

use rand::RngCore;

use super::{NoCandidate, Pick, PickReason, Policy, choose};
use crate::{Candidate, Cost, RequestShape};

pub(super) const NAME: &str = "kv";

#[derive(Debug)]
pub(super) struct Kv;

// === impl Kv ===

impl Policy for Kv {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        true
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::LowestCost, PickReason::Tie, PickReason::Sampled]
    }

    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        choose::fill_costs(request, candidates, costs, Cost::of);
        if let Some(only) = choose::only(candidates)? {
            return Ok(only);
        }
        if request.weights.temperature > 0.0 {
            return choose::softmax(costs, &request.weights, rng);
        }
        choose::lowest(costs, rng)
    }
}
