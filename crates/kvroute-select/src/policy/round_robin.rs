//! `round-robin`: the eligible rank whose last turn is longest ago.
//!
//! A counter modulo the number of candidates is unfair as soon as that number changes: ranks are skipped or
//! served twice whenever one drops out. Remembering each rank's last turn keeps any two ranks that stay
//! eligible within one attempt of each other. A rank that returns gets one turn at once, not the ones it missed.

use rand::RngCore;

use kvroute_core::RankSlot;

use super::{NoCandidate, Pick, PickReason, Policy, choose};
use crate::{Candidate, Cost, RequestShape};

pub(super) const NAME: &str = "round-robin";

#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    /// Number of turns so far.
    turns: u64,
    /// Number of each slot's last turn, 0 for none.
    last_turns: Vec<u64>,
}

// === impl RoundRobin ===

impl RoundRobin {
    fn last_turn(&self, slot: RankSlot) -> u64 {
        self.last_turns.get(slot.index()).copied().unwrap_or(0)
    }
}

impl Policy for RoundRobin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn uses_index(&self) -> bool {
        false
    }

    fn reasons(&self) -> &'static [PickReason] {
        &[PickReason::Turn]
    }

    fn pick(
        &self,
        _: &RequestShape,
        candidates: &[Candidate],
        costs: &mut Vec<Option<Cost>>,
        _: &mut dyn RngCore,
    ) -> Result<Pick, NoCandidate> {
        costs.clear();
        if let Some(only) = choose::only(candidates)? {
            return Ok(only);
        }
        let waiting = |index: &usize| {
            let slot = candidates[*index].slot;
            (self.last_turn(slot), slot)
        };
        let candidate = choose::eligible_positions(candidates).min_by_key(waiting).ok_or(NoCandidate)?;
        Ok(Pick { candidate, reason: PickReason::Turn })
    }

    fn placed(&mut self, _: &RequestShape, rank: &Candidate) {
        let slot = rank.slot;
        if slot.index() >= self.last_turns.len() {
            self.last_turns.resize(slot.index() + 1, 0);
        }
        self.turns += 1;
        self.last_turns[slot.index()] = self.turns;
    }
}
