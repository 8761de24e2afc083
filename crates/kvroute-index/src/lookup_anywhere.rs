//! The walk along a prompt that asks of each block whether anybody holds it, reachable for a prompt or not.
//!
//! A run is found by its first block alone, and that one stays findable for as long as anybody holds any block of
//! the run, even if nobody holds the first. A held block is in exactly one run, whose first block stands at most
//! one run's length before it in the same chain: so looking for a run at every block that no run covers, from
//! that far before the first block on, misses none. Unlike the other walks this one goes on where nothing is
//! found; and it marks nothing as used, because asking why a block is missing is no use of it.

use kvroute_core::{SequenceHash, Tier};

use crate::holder::{Held, Holder};
use crate::lookup::Glance;
use crate::run::{RUN_LIMIT, RunId};
use crate::segments::SegmentCells;
use crate::shelf::Shelf;

/// One look at who holds anything of a prompt.
#[derive(Debug)]
pub(crate) struct HeldWalk<'a> {
    shelf: &'a Shelf,
    hashes: &'a [SequenceHash],
    /// The block that the answer begins with.
    first: usize,
    held: &'a mut [bool],
}

// === impl HeldWalk ===

impl<'a> HeldWalk<'a> {
    /// Finds which blocks from `first` on some rank holds on some tier.
    pub(crate) fn run(shelf: &'a Shelf, hashes: &'a [SequenceHash], first: usize, held: &'a mut Vec<bool>) {
        held.clear();
        held.resize(hashes.len().saturating_sub(first), false);
        if !held.is_empty() {
            Self { shelf, hashes, first, held }.visit_all();
        }
    }

    /// Follows the runs that cover the beginning; where one is missing, nothing that matters stands before the
    /// block from which a run may just reach `first`.
    fn visit_all(&mut self) {
        let earliest = self.first.saturating_sub(RUN_LIMIT as usize - 1);
        let mut at = 0;
        while at < self.hashes.len() {
            let (shelf, head) = (self.shelf, self.hashes[at]);
            at = match shelf.heads.find(head, |run| self.visit(run, at)) {
                Some(matched) => at + matched,
                None => earliest.max(at + 1),
            };
        }
    }

    /// Notes what is held of a run that the prompt may go on with; `None` if the run begins with another block.
    fn visit(&mut self, run: RunId, at: usize) -> Option<usize> {
        loop {
            let Glance { state, matched, .. } = Glance::at(self.shelf, run, &self.hashes[at..]);
            self.note(state.holder(), at, matched);
            if self.shelf.runs.is_still(run, state) {
                return (matched > 0).then_some(matched);
            }
            self.set(at, at + matched, false);
        }
    }

    fn note(&mut self, holder: Holder, at: usize, matched: usize) {
        let Held::Segments(cell) = holder.held() else {
            self.set(at, at + matched, !holder.is_nobody());
            return;
        };
        let cells = &self.shelf.runs.cells;
        for tier in Tier::ALL {
            let mut start = 0;
            for segment in SegmentCells::of(cells, cell, tier).iter(cells) {
                let end = matched.min(segment.end as usize);
                if !segment.holder.is_nobody() {
                    self.set(at + start, at + end, true);
                }
                start = end;
            }
        }
    }

    /// Answers for blocks of the prompt, as far as they are asked for.
    fn set(&mut self, from: usize, to: usize, is_held: bool) {
        let (from, to) = (from.saturating_sub(self.first), to.saturating_sub(self.first));
        if let Some(held) = self.held.get_mut(from..to) {
            held.fill(is_held);
        }
    }
}
