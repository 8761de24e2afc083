//! The ways of choosing that policies share: uniformly, by the lowest cost, by a softmax over costs.
//!
//! Each takes one random number at most, and the draws among equals none where there is just one. Candidates
//! are looked at in the given order, so equal inputs and equal random numbers give equal picks.

use rand::{Rng, RngCore};

use crate::policy::{NoCandidate, Pick, PickReason};
use crate::{Candidate, Cost, CostWeights, RequestShape};

/// Replaces `costs` by one cost for each eligible candidate and `None` for each excluded one.
pub(super) fn fill_costs(
    request: &RequestShape,
    candidates: &[Candidate],
    costs: &mut Vec<Option<Cost>>,
    cost_of: impl Fn(&RequestShape, &Candidate) -> Cost,
) {
    costs.clear();
    let eligible = |candidate: &Candidate| candidate.is_eligible().then(|| cost_of(request, candidate));
    costs.extend(candidates.iter().map(eligible));
}

/// The only eligible candidate, if there is just one.
pub(super) fn only(candidates: &[Candidate]) -> Result<Option<Pick>, NoCandidate> {
    let mut eligible = eligible_positions(candidates);
    let first = eligible.next().ok_or(NoCandidate)?;
    let is_only = eligible.next().is_none();
    Ok(is_only.then_some(Pick { candidate: first, reason: PickReason::OnlyCandidate }))
}

/// Positions of the candidates that may be picked.
pub(super) fn eligible_positions(candidates: &[Candidate]) -> impl Iterator<Item = usize> + Clone {
    candidates.iter().enumerate().filter(|(_, candidate)| candidate.is_eligible()).map(|(index, _)| index)
}

/// One of several positions, each as likely.
pub(super) fn uniformly(
    mut positions: impl Iterator<Item = usize> + Clone,
    rng: &mut dyn RngCore,
) -> Option<usize> {
    let count = positions.clone().count() as u64;
    let drawn = if count > 1 { rng.random_range(0..count) } else { 0 };
    positions.nth(drawn as usize)
}

/// The lowest cost; equal ones are as likely.
pub(super) fn lowest(costs: &[Option<Cost>], rng: &mut dyn RngCore) -> Result<Pick, NoCandidate> {
    let mut lowest = f64::INFINITY;
    let (mut first, mut holders) = (None, 0);
    for (index, cost) in priced(costs) {
        if cost < lowest || first.is_none() {
            (lowest, first, holders) = (cost, Some(index), 1);
        } else if cost == lowest {
            holders += 1;
        }
    }
    if holders <= 1 {
        return Ok(Pick { candidate: first.ok_or(NoCandidate)?, reason: PickReason::LowestCost });
    }
    let tied = priced(costs).filter(|(_, cost)| *cost == lowest).map(|(index, _)| index);
    let candidate = uniformly(tied, rng).ok_or(NoCandidate)?;
    Ok(Pick { candidate, reason: PickReason::Tie })
}

/// The least load, whatever the request and the cache.
pub(super) fn least_loaded(
    request: &RequestShape,
    candidates: &[Candidate],
    costs: &mut Vec<Option<Cost>>,
    rng: &mut dyn RngCore,
) -> Result<Pick, NoCandidate> {
    fill_costs(request, candidates, costs, Cost::of_load);
    match only(candidates)? {
        Some(only) => Ok(only),
        None => lowest(costs, rng),
    }
}

/// Samples with probability proportional to `exp(−x / temperature)`, `x` being the cost normalised to 0..1
/// over the candidates. Equal costs are as likely.
pub(super) fn softmax(
    costs: &[Option<Cost>],
    weights: &CostWeights,
    rng: &mut dyn RngCore,
) -> Result<Pick, NoCandidate> {
    let (lowest, highest) = range(costs).ok_or(NoCandidate)?;
    let span = highest - lowest;
    let normalised = |cost: f64| if span > 0.0 { (cost - lowest) / span } else { 0.0 };
    let shares = priced(costs).map(|(index, cost)| (index, (-normalised(cost) / weights.temperature).exp()));
    let mut left = rng.random::<f64>() * shares.clone().map(|(_, share)| share).sum::<f64>();
    let mut sampled = None;
    for (index, share) in shares.filter(|(_, share)| *share > 0.0) {
        sampled = Some(index);
        if left < share {
            break;
        }
        left -= share;
    }
    let candidate = sampled.ok_or(NoCandidate)?;
    Ok(Pick { candidate, reason: PickReason::Sampled })
}

fn priced(costs: &[Option<Cost>]) -> impl Iterator<Item = (usize, f64)> + Clone {
    costs.iter().enumerate().filter_map(|(index, cost)| cost.as_ref().map(|cost| (index, cost.total.get())))
}

fn range(costs: &[Option<Cost>]) -> Option<(f64, f64)> {
    priced(costs)
        .map(|(_, cost)| (cost, cost))
        .reduce(|(low, high), (cost, _)| (low.min(cost), high.max(cost)))
}
