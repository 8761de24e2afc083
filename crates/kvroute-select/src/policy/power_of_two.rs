//! `power-of-two`: two ranks drawn at random, and the less loaded of them.
//!
//! Whoever picks the least loaded of all herds when what it knows is old, or when others place requests too: everybody
//! goes to the same rank until the figures change. Two random choices leave the worst rank nearly as well off and
//! never gather, since no rank is in more than its share of the draws.

use rand::{Rng, RngCore};

use super::{NoCandidate, Pick, PickReason, Policy, choose};
use crate::{Candidate, Cost, RequestShape};

pub(super) const NAME: &str = "power-of-two";

#[derive(Debug)]
pub(super) struct PowerOfTwo;

// === impl PowerOfTwo ===

impl Policy for PowerOfTwo {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        false
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::LessLoadedOfTwo]
    }

    /// Weighs the two that were drawn, so that an explanation shows against what the pick was held.
    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        costs.clear();
        costs.resize(candidates.len(), None);
        let mut weigh = |position: usize| {
            let cost = Cost::of_load(request, &candidates[position]);
            costs[position] = Some(cost);
            cost.total
        };
        if let Some(only) = choose::only(candidates)? {
            weigh(only.candidate);
            return Ok(only);
        }
        let (first, second) = two_of(choose::eligible_positions(candidates), rng).ok_or(NoCandidate)?;
        let candidate = if weigh(second) < weigh(first) { second } else { first };
        Ok(Pick { candidate, reason: PickReason::LessLoadedOfTwo })
    }
}

/// Two distinct ones of at least two positions. Either is as likely to be the first, so that preferring the first of
/// equals prefers nobody.
fn two_of(
    mut positions: impl Iterator<Item = usize> + Clone,
    rng: &mut dyn RngCore,
) -> Option<(usize, usize)> {
    let count = positions.clone().count() as u64;
    let first = rng.random_range(0..count);
    let other = rng.random_range(0..count - 1);
    let second = if other < first { other } else { other + 1 };
    let (low, high) = (first.min(second), first.max(second));
    let at_low = positions.nth(low as usize)?;
    let at_high = positions.nth((high - low - 1) as usize)?;
    Some(if first < second { (at_low, at_high) } else { (at_high, at_low) })
}
