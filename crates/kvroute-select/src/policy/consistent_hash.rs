//! `consistent-hash`: requests with the same key go to the same rank, as long as it has not too much already.
//!
//! The key is the client's session, else the head of the prompt. Nothing is remembered and no cache is asked: the key
//! and the names of the ranks say it all, so that a restart changes nothing and several routers in front of one fleet
//! agree without a word. A request that has neither goes to the least loaded rank.
//!
//! Each rank has a score from the key and its own name, and the highest score is the key's home (rendezvous hashing). A
//! rank that leaves gives up its own keys only, each to whoever is next for that key, so that no single neighbour
//! inherits them all; one that joins takes its share from everybody. A ring needs hundreds of points a rank before its
//! shares are even, and has to be kept and rebuilt as the fleet changes. Scores need neither, and a decision looks at
//! every rank anyway to see which are eligible.
//!
//! A rank takes no further request once it has 1.25 times its fair share of those in flight; the request goes to the
//! next rank in the order of its key's scores, and so do all others with that key: a hot key spreads over few ranks
//! instead of all. While hundreds of ranks have less than a request each the fair share is next to nothing, and a
//! bound of one or two would scatter every key that has two requests at a time. Hence the floor ([`FEWEST`]).

use rand::RngCore;

use kvroute_core::RankKey;

use super::{NoCandidate, Pick, PickReason, Policy, choose};
use crate::{AffinityKey, Candidate, Cost, RequestShape};

pub(super) const NAME: &str = "consistent-hash";

/// Requests in flight that any rank may have, however few the others have.
const FEWEST: u128 = 4;

/// Fractional bits of the golden ratio and of π: odd numbers without a pattern.
const MULTIPLIERS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x243f_6a88_85a3_08d3];

#[derive(Debug)]
pub(super) struct ConsistentHash;

// === impl ConsistentHash ===

impl Policy for ConsistentHash {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        false
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::Home, PickReason::Spilled, PickReason::LowestCost, PickReason::Tie]
    }

    fn pick(
        &self,
        request: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        rng: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        let Some(key) = request.affinity.session.or(request.affinity.head) else {
            return choose::least_loaded(request, candidates, costs, rng);
        };
        costs.clear();
        match choose::only(candidates)? {
            Some(only) => Ok(only),
            None => by_key(key, candidates),
        }
    }
}

/// The first rank below the bound in the order of the key's scores. There always is one: not all can have more than
/// their mean.
fn by_key(key: AffinityKey, candidates: &[Candidate]) -> Result<Pick, NoCandidate> {
    let bound = bound(candidates);
    let has_room = |position: &usize| u128::from(candidates[*position].load.active_requests) < bound;
    let score_of = |position: &usize| score(key, candidates[*position].key);
    let eligible = choose::eligible_positions(candidates);
    let home = eligible.clone().max_by_key(score_of).ok_or(NoCandidate)?;
    if has_room(&home) {
        return Ok(Pick { candidate: home, reason: PickReason::Home });
    }
    let next = eligible.filter(has_room).max_by_key(score_of).ok_or(NoCandidate)?;
    Ok(Pick { candidate: next, reason: PickReason::Spilled })
}

/// Requests in flight at which a rank takes no more: 1.25 times the mean with this request, rounded up. Engines tell
/// counts too, so no sum of them may overflow.
fn bound(candidates: &[Candidate]) -> u128 {
    let eligible = candidates.iter().filter(|candidate| candidate.is_eligible());
    let ranks = eligible.clone().count().max(1) as u128;
    let requests = 1 + eligible.map(|candidate| u128::from(candidate.load.active_requests)).sum::<u128>();
    (5 * requests).div_ceil(4 * ranks).max(FEWEST)
}

/// How much a key belongs to a rank: as good as random, and the same in every process.
fn score(key: AffinityKey, rank: RankKey) -> u64 {
    mixed(key.get() ^ mixed(rank.get()))
}

/// Every bit of the number moves half of the result's: folded and multiplied twice.
fn mixed(number: u64) -> u64 {
    let once = (number ^ (number >> 32)).wrapping_mul(MULTIPLIERS[0]);
    let twice = (once ^ (once >> 29)).wrapping_mul(MULTIPLIERS[1]);
    twice ^ (twice >> 32)
}
