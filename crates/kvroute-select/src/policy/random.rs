//! `random`: any eligible rank, each as likely.

use rand::RngCore;

use super::{NoCandidate, Pick, PickReason, Policy, choose};
use crate::{Candidate, Cost, RequestShape};

pub(super) const NAME: &str = "random";

#[derive(Debug)]
pub(super) struct Random;

// === impl Random ===

impl Policy for Random {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        false
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::Random]
    }

    fn pick(
        &self,
        _: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        costs.clear();
        if let Some(only) = choose::only(candidates)? {
            return Ok(only);
        }
        let candidate = choose::uniformly(choose::eligible_positions(candidates), rng).ok_or(NoCandidate)?;
        Ok(Pick { candidate, reason: PickReason::Random })
    }
}
