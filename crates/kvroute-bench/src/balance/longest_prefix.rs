//! The longest cached prefix and nothing else: what can be reused where nobody cares for load.

use kvroute_core::Tokens;
use kvroute_select::{Candidate, Cost, NoCandidate, Pick, PickReason, Policy, RequestShape};
use rand::{Rng, RngCore};

pub(super) const NAME: &str = "longest-prefix";

/// Looks at nothing but the cached prefix.
#[derive(Debug)]
pub(super) struct LongestPrefix;

// === impl LongestPrefix ===

impl Policy for LongestPrefix {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        true
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::LowestCost, PickReason::Tie]
    }

    fn pick(
        &self,
        _: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        costs.clear();
        let eligible = || candidates.iter().enumerate().filter(|(_, candidate)| candidate.is_eligible());
        let prefix = |candidate: &Candidate| -> Tokens { candidate.cached.total() };
        let longest = eligible().map(|(_, candidate)| prefix(candidate)).max().ok_or(NoCandidate)?;
        let holders = || eligible().filter(|(_, candidate)| prefix(candidate) == longest);
        let (count, reason) = match holders().count() {
            1 => (1, PickReason::LowestCost),
            several => (several, PickReason::Tie),
        };
        let drawn = if count > 1 { rng.random_range(0..count as u64) as usize } else { 0 };
        let (candidate, _) = holders().nth(drawn).ok_or(NoCandidate)?;
        Ok(Pick { candidate, reason })
    }
}
