//! `least-loaded`: the rank with the least booked work, whatever it has cached.
//!
//! Needs neither tokens nor an index: what the request itself would cost is the same everywhere.

use rand::RngCore;

use super::{NoCandidate, Pick, PickReason, Policy, choose};
use crate::{Candidate, Cost, RequestShape};

pub(super) const NAME: &str = "least-loaded";

#[derive(Debug)]
pub(super) struct LeastLoaded;

// === impl LeastLoaded ===

impl Policy for LeastLoaded {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        false
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::LowestCost, PickReason::Tie]
    }

    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        choose::least_loaded(request, candidates, costs, rng)
    }
}
