//! `least-loaded`: the rank with the least booked work, whatever it has cached.
//!
//! Needs neither tokens nor an index: what the request itself would cost is the same everywhere.

use rand::RngCore;

use super::{NoCandidate, Pick, Policy, choose};
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

    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        choose::fill_costs(request, candidates, costs, Cost::of_load);
        match choose::only(candidates)? {
            Some(only) => Ok(only),
            None => choose::lowest(costs, rng),
        }
    }
}
