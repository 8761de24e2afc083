//! The walk along a prompt that finds every rank's cached prefix at once, without a lock.
//!
//! A run is found by the block that the prompt is at, and compared at its end: equal hashes there mean that all
//! of it matches. The ranks that hold the whole match go on, the others' prefixes end where a segment lacks
//! them. On the device all ranks start at block 0 and their number only shrinks, so the walk ends with the last one.

use kvroute_core::{SequenceHash, Tier};

use crate::holder::{Held, Holder};
use crate::prefixes::Prefixes;
use crate::run::{RunId, RunPlace, RunState};
use crate::segments::SegmentCells;
use crate::sets::{HEADER, words_at};
use crate::shelf::Shelf;

/// One lookup on the device tier.
#[derive(Debug)]
pub(crate) struct DeviceWalk<'a> {
    shelf: &'a Shelf,
    hashes: &'a [SequenceHash],
    found: &'a mut Prefixes,
    era: u8,
    /// Blocks of the prompt that were matched so far.
    at: usize,
    is_over: bool,
}

// === impl DeviceWalk ===

impl<'a> DeviceWalk<'a> {
    /// Finds the device's part of every rank's prefix.
    pub(crate) fn run(
        shelf: &'a Shelf,
        hashes: &'a [SequenceHash],
        slots: usize,
        era: u8,
        found: &'a mut Prefixes,
    ) {
        found.reset(slots);
        let mut walk = Self { shelf, hashes, found, era, at: 0, is_over: slots == 0 };
        while !walk.is_over && walk.at < hashes.len() {
            let head = hashes[walk.at];
            let Some(matched) = shelf.heads.find(head, |run| walk.visit(run)) else { break };
            walk.at += matched;
        }
        let end = walk.at as u32;
        walk.found.end_matching(end);
    }

    /// Matches one run; `None` if it begins with another block.
    fn visit(&mut self, run: RunId) -> Option<usize> {
        let runs = &self.shelf.runs;
        loop {
            let Glance { state, place, matched } = Glance::at(self.shelf, run, &self.hashes[self.at..]);
            if matched == 0 {
                if runs.is_still(run, state) {
                    return None;
                }
                continue;
            }
            self.found.save();
            self.narrow(state.holder(), matched as u32);
            if runs.is_still(run, state) {
                if place.era() != self.era {
                    runs.mark(run, place, self.era);
                }
                return Some(matched);
            }
            self.found.restore(self.at == 0);
            self.is_over = false;
        }
    }

    fn narrow(&mut self, holder: Holder, matched: u32) {
        let Held::Segments(cell) = holder.held() else {
            self.keep(holder, 0);
            return;
        };
        let cells = &self.shelf.runs.cells;
        let mut start = 0;
        for segment in SegmentCells::of(cells, cell, Tier::Device).iter(cells) {
            self.keep(segment.holder, start);
            start = segment.end;
            if start >= matched || self.is_over {
                return;
            }
        }
        self.keep(Holder::NOBODY, start);
    }

    /// Keeps the ranks of a set; the others' prefixes end so many blocks behind the run's head.
    fn keep(&mut self, holder: Holder, offset: u32) {
        let end = self.at as u32 + offset;
        let found = &mut *self.found;
        self.is_over = match holder.held() {
            Held::Nobody | Held::Segments(_) => found.retain(end, |_| 0),
            Held::One(only) => {
                let (word, bit) = (only.index() / 64, 1 << (only.get() % 64));
                found.retain(end, |at| if at == word { bit } else { 0 })
            }
            Held::Two(left, right) => found.retain(end, |at| {
                let bit =
                    |slot: kvroute_core::RankSlot| u64::from(slot.index() / 64 == at) << (slot.get() % 64);
                bit(left) | bit(right)
            }),
            Held::Set(cell) => {
                let cells = &self.shelf.runs.cells;
                let words = words_at(cells, cell) as usize;
                found.retain(end, |at| if at < words { cells.get(cell + HEADER + at as u32) } else { 0 })
            }
        };
    }
}

/// What a run was at one look, to be believed only if it still is afterwards.
pub(crate) struct Glance {
    pub(crate) state: RunState,
    pub(crate) place: RunPlace,
    /// Leading blocks of the prompt that are the run's.
    pub(crate) matched: usize,
}

// === impl Glance ===

impl Glance {
    /// Looks at a run that the prompt may go on with.
    pub(crate) fn at(shelf: &Shelf, run: RunId, prompt: &[SequenceHash]) -> Self {
        let state = shelf.runs.state(run);
        let place = shelf.runs.place(run);
        let len = prompt.len().min(state.len() as usize);
        Self { state, place, matched: matched_blocks(shelf, place, &prompt[..len]) }
    }
}

/// Leading blocks of the prompt that are those of the run. Hashes are chained: once they differ, they stay so.
fn matched_blocks(shelf: &Shelf, place: RunPlace, prompt: &[SequenceHash]) -> usize {
    let equal = |at: usize| shelf.runs.hash(place, at as u32) == prompt[at];
    if prompt.is_empty() {
        return 0;
    }
    if equal(prompt.len() - 1) {
        return prompt.len();
    }
    if !equal(0) {
        return 0;
    }
    // Blocks before `low` are equal, the one at `high` is not. Several probes at once hide each other's latency.
    let (mut low, mut high) = (1, prompt.len() - 1);
    while high - low > 8 {
        let step = (high - low) / 4;
        let probes = [low + step, low + 2 * step, low + 3 * step].map(|at| (at, equal(at)));
        for (at, is_equal) in probes {
            if is_equal {
                low = at + 1;
            } else {
                high = high.min(at);
            }
        }
    }
    while low < high && equal(low) {
        low += 1;
    }
    low
}
